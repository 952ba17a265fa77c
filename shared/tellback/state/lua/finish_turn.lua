-- Applies one TurnFinished: the entry leaves the intake in the script that stores its effect.
-- KEYS: intake stream, lease, then the six of lib/turn.  ARGV: fence, entry ids (JSON), response (JSON), error code or '',
--       excerpt for the history, time after a fallback in which an answer is still sent (ms).
-- Returns 'ok', 'fenced', or 'gone' (no such turn; the entry is left in the intake, for the dead letters).
-- @include intake
-- @include answer
if fenced() then
  return 'fenced'
end
local keys = turn_keys(3)
if redis.call('EXISTS', keys.turn) == 0 then
  return 'gone'
end
settle()
answer_turn(keys, ARGV[3], ARGV[4], ARGV[5], ARGV[6], now_ms())
return 'ok'
