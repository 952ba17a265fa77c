-- Marks that an answer is on its way through the intake, so that no fallback overtakes it. Once, and for a grace only: if
-- the fact is lost, the sweep answers all the same. A turn that should be there and is not is made again first.
-- KEYS: operation, the seven of lib/turn, newest turns.  ARGV: grace (ms), then the nine of lib/restore.
-- Returns {"state"}: finishing, or the state that the turn is in.
-- @include decision
-- @include turn
-- @include restore
local replayed = replay()
if replayed then
  return replayed
end
local keys, now = turn_keys(2), now_ms()
restore(keys, KEYS[9], 2, now)
local turn = load_turn(keys)
if not turn then
  return answer({state = 'gone'})
end
if turn.state ~= 'open' then
  return answer({state = turn.state})
end
local deadline = math.max(tonumber(turn.deadline), now + tonumber(ARGV[1]))
write_turn(keys, 'state', 'finishing', 'deadline', deadline)
set_due(keys, turn.id, deadline)
return answer({state = 'finishing'})
