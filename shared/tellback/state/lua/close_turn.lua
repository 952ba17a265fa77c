-- Closes a turn that needs no reply, and keeps the reason.
-- KEYS: operation, then the seven of lib/turn.  ARGV: reason, excerpt of it for the history.
-- Returns {"state", "closed"}: `closed` is whether the turn is without a reply now.
-- @include decision
-- @include turn
local replayed = replay()
if replayed then
  return replayed
end
local keys = turn_keys(2)
local turn = load_turn(keys)
if not turn then
  return answer({state = 'gone', closed = false})
end
if turn.state ~= 'open' and turn.state ~= 'finishing' and turn.state ~= 'auto' then
  return answer({state = turn.state, closed = turn.state == 'no_reply'})
end
local now = now_ms()
close_turn(keys, turn.id, 'no_reply', now)
tell(keys, turn, 'no_reply', now, {reason = ARGV[1]})
return answer({state = 'no_reply', closed = true})
