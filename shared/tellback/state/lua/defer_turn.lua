-- Puts work off: the turn keeps its obligation under a new deadline, sooner or later than it was, up to the hard limit.
-- KEYS: operation, then the seven of lib/turn.  ARGV: time from now (ms).
-- Returns {"state", "left"}: milliseconds to the deadline, 0 where the turn is not open.
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
local deadline = math.min(now + tonumber(ARGV[1]), tonumber(turn.limit))
local left = math.max(0, deadline - now)
write_turn(keys, 'deadline', deadline, 'deferred_at', now)
set_due(keys, turn.id, deadline)
tell(keys, turn, 'deferred', now, {left = left})
return answer({state = 'open', left = left})
