-- Opens a turn, once: the same message of a conversation has the same id, and a second call finds the first's turn. One
-- script, so that no turn exists without its deadline.
-- KEYS: operation, turn, due set, outbox, queue, channels, history, counters, newest turns.
-- ARGV: id, channel, conversation, message id, session, language, text, excerpt for the history, answer within (ms),
--       hard limit (ms), 1 if the message is of auto mode, the host that opens it.
-- Returns {"new", "state", "session", "language", "opened_at"}.
-- @include decision
-- @include turn
local replayed = replay()
if replayed then
  return replayed
end
local keys = turn_keys(2)
local found = load_turn(keys)
if found then
  return answer({new = false, state = found.state, session = found.session, language = found.language,
    opened_at = tonumber(found.opened_at)})
end
local now = now_ms()
local within = tonumber(ARGV[9])
local turn = {id = ARGV[1], channel = ARGV[2], conversation = ARGV[3], session = ARGV[5], language = ARGV[6],
  opened_at = now}
turn.state = ARGV[11] == '1' and 'auto' or 'open'
write_turn(keys, 'id', turn.id, 'channel', turn.channel, 'conversation', turn.conversation, 'message_id', ARGV[4],
  'session', turn.session, 'language', turn.language, 'text', ARGV[7], 'state', turn.state, 'opened_at', now,
  'within', within, 'host', ARGV[12])
if turn.state == 'open' then
  write_turn(keys, 'deadline', now + within, 'limit', now + tonumber(ARGV[10]))
  set_due(keys, turn.id, now + within)
end
enlist(KEYS[9], turn)
tell(keys, turn, 'opened', now, {text = ARGV[8], state = turn.state})
return answer({new = true, state = turn.state, session = turn.session, language = turn.language, opened_at = now})
