-- A host's answer, or its word that there will be none. State and outbox entry in one script: no crash leaves one alone.
-- A turn that should be there and is not is made again first: see lib/restore.
-- KEYS: operation, the seven of lib/turn, newest turns; then turn and history of the delivery that is dropped, if one is.
-- ARGV: response (JSON), error code or '', excerpt for the history, time after a fallback in which an answer is still sent
--       (ms), idempotency key of the delivery that is dropped or '', then the nine of lib/restore.
-- Returns {"result": accepted | replaced | late | stale | duplicate | closed | merged | gone}, or what `crowded` of lib/room
-- says, and then nothing was done.
-- @include decision
-- @include answer
-- @include room
-- @include restore
local replayed = replay()
if replayed then
  return replayed
end
local keys, now = turn_keys(2), now_ms()
local crowd = crowded(keys, ARGV[5], 10)
if crowd then
  return cjson.encode(crowd)
end
restore(keys, KEYS[9], 6, now)
return answer({result = answer_turn(keys, ARGV[1], ARGV[2], ARGV[3], ARGV[4], now)})
