-- A host's answer, or its word that there will be none. State and outbox entry in one script: no crash leaves one alone.
-- KEYS: operation, then the six of lib/turn.  ARGV: response (JSON), error code or '', excerpt for the history.
-- Returns {"result": accepted | replaced | late | duplicate | closed | gone}.
-- @include decision
-- @include answer
local replayed = replay()
if replayed then
  return replayed
end
return answer({result = answer_turn(turn_keys(2), ARGV[1], ARGV[2], ARGV[3], now_ms())})
