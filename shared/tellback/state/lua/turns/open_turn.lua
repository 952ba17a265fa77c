-- Open a turn once: the same message of a conversation has the same id, and a second call finds the first one's turn.
-- Atomic: two calls must not both open the turn, and no turn exists without its deadline.
-- keys: operation, turn, out, +posted, queue, hist, /due, /channels, /turnstats, /turns, /limits, /clock
-- args:
--   turn_id str
--   channel str
--   conversation str
--   message_id str
--   session str
--   language str
--   text str
--   excerpt str: for the history
--   within_ms int: time to answer
--   limit_ms int: hard limit
--   auto flag: true for a message of auto mode
--   host str: that opens it
--   trace str: its trace context, or empty
-- returns: {"new", "state", "session", "language", "opened_at"}, or {"refused": 'suspended' | the most open turns}.
-- @include decision
-- @include turn
local keys = turn_keys()
local found = load_turn(keys)
if found then
  return answer({new = false, state = found.state, session = found.session, language = found.language,
    opened_at = tonumber(found.opened_at)})
end
local allowed = redis.pcall('HMGET', key_limits, 'suspended', 'turns')
if allowed.err then allowed = {} end -- of another type: no limits must not cost a user the answer
local most = tonumber(allowed[2]) -- nil, for no limit, also if somebody wrote no number
if allowed[1] then
  return answer({refused = 'suspended'})
end
if most and arg_auto ~= '1' and redis.call('ZCARD', key_due) >= most then
  return answer({refused = allowed[2]})
end
local now = now_ms()
local within = tonumber(arg_within_ms)
local turn = {id = arg_turn_id, channel = arg_channel, conversation = arg_conversation, session = arg_session,
  language = arg_language, opened_at = now}
turn.state = arg_auto == '1' and 'auto' or 'open'
local fields = {'id', turn.id, 'channel', turn.channel, 'conversation', turn.conversation,
  'message_id', arg_message_id, 'session', turn.session, 'language', turn.language, 'text', arg_text,
  'state', turn.state, 'opened_at', now, 'within', within, 'host', arg_host}
if arg_trace ~= '' then
  fields[#fields + 1], fields[#fields + 2] = 'trace', arg_trace
end
if turn.state == 'open' then
  local clock = steady(now)
  for _, part in ipairs({limit_fields(clock + tonumber(arg_limit_ms), now)}) do fields[#fields + 1] = part end
  set_due(keys, turn, clock + within, now, unpack(fields))
else
  write_turn(keys, unpack(fields))
end
add_to_listing(key_turns, turn)
report(keys, turn, 'opened', now, {text = arg_excerpt, state = turn.state})
return answer({new = true, state = turn.state, session = turn.session, language = turn.language, opened_at = now})
