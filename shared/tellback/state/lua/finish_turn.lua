-- Applies one TurnFinished: the entry leaves the intake in the script that stores its effect. A turn that should be there
-- and is not is made again first: see lib/restore.
-- KEYS: intake stream, lease, the seven of lib/turn, newest turns; then turn and history of the delivery that is dropped, if
--       one is.
-- ARGV: fence, entry ids (JSON), response (JSON), error code or '', excerpt for the history, time after a fallback in which an
--       answer is still sent (ms), what the pipeline tells the history (JSON) or '', idempotency key of the delivery that is
--       dropped or '', then the nine of lib/restore. An empty response: nothing was prepared, and what the user is owed
--       stays as it is.
-- Returns 'ok', 'fenced', 'gone' (no such turn; the entry is left in the intake, for the dead letters), or what `crowded` of
-- lib/room says (JSON), and then nothing was done.
-- @include intake
-- @include answer
-- @include room
-- @include restore
if fenced() then
  return 'fenced'
end
local keys, now = turn_keys(3), now_ms()
local crowd = crowded(keys, ARGV[8], 11)
if crowd then
  return cjson.encode(crowd)
end
restore(keys, KEYS[10], 9, now)
if redis.call('EXISTS', keys.turn) == 0 then
  return 'gone'
end
settle()
if ARGV[3] ~= '' then
  answer_turn(keys, ARGV[3], ARGV[4], ARGV[5], ARGV[6], now)
end
if ARGV[7] ~= '' then
  tell(keys, load_turn(keys), 'routed', now, cjson.decode(ARGV[7]))
end
return 'ok'
