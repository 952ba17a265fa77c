-- A host's answer, or its word that there will be none. State and outbox entry in one script: no crash leaves one alone.
-- A turn that should be there and is not was lost with the last writes of a Redis that failed over: it is made again from
-- what the host knows of it, since its user waits all the same. One that has outlived its days stays gone.
-- KEYS: operation, then the seven of lib/turn.  ARGV: response (JSON), error code or '', excerpt for the history, time after a
--       fallback in which an answer is still sent (ms), then of the turn: id, channel, conversation, session, message id,
--       language, opened at (ms), state in which it was opened.
-- Returns {"result": accepted | replaced | late | stale | duplicate | closed | merged | gone}.
-- @include decision
-- @include answer
local replayed = replay()
if replayed then
  return replayed
end
local keys, now = turn_keys(2), now_ms()
if redis.call('EXISTS', keys.turn) == 0 and now - tonumber(ARGV[11]) < TURN_LIFE then
  local turn = {id = ARGV[5], channel = ARGV[6], conversation = ARGV[7]}
  write_turn(keys, 'id', turn.id, 'channel', turn.channel, 'conversation', turn.conversation, 'session', ARGV[8],
    'message_id', ARGV[9], 'language', ARGV[10], 'opened_at', ARGV[11], 'state', ARGV[12])
  tell(keys, turn, 'restored', now, {state = ARGV[12]})
end
return answer({result = answer_turn(keys, ARGV[1], ARGV[2], ARGV[3], ARGV[4], now)})
