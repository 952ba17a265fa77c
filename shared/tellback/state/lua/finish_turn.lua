-- Applies one TurnFinished: the entry leaves the intake in the script that stores its effect.
-- KEYS: intake stream, lease, then the seven of lib/turn.  ARGV: fence, entry ids (JSON), response (JSON), error code or '',
--       excerpt for the history, time after a fallback in which an answer is still sent (ms), what the pipeline tells
--       the history (JSON) or ''. An empty response: nothing was prepared, and what the user is owed stays as it is.
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
local now = now_ms()
if ARGV[3] ~= '' then
  answer_turn(keys, ARGV[3], ARGV[4], ARGV[5], ARGV[6], now)
end
if ARGV[7] ~= '' then
  tell(keys, load_turn(keys), 'routed', now, cjson.decode(ARGV[7]))
end
return 'ok'
