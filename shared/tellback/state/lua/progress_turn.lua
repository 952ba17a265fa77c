-- Word from a host that still works on a turn: the user may wait as long again, up to the hard limit. A deadline that lies
-- further ahead, since the turn was deferred, stands.
-- KEYS: operation, then the seven of lib/turn.  ARGV: none.
-- Returns {"state", "left"}: milliseconds to the deadline, 0 where the turn is open no longer.
-- @include decision
-- @include turn
local replayed = replay()
if replayed then
  return replayed
end
local keys = turn_keys(2)
local turn = load_turn(keys)
if not turn then
  return answer({state = 'gone', left = 0})
end
if turn.state ~= 'open' then
  return answer({state = turn.state, left = 0})
end
local now = now_ms()
local deadline = math.max(tonumber(turn.deadline), math.min(now + tonumber(turn.within), tonumber(turn.limit)))
write_turn(keys, 'deadline', deadline)
set_due(keys, turn.id, deadline)
return answer({state = 'open', left = math.max(0, deadline - now)})
