-- flags: allow-oom
-- Hand an open turn over to another host. Its deadline stays, and the other host finds it in its list. Atomic: the
-- turn must not be answered between the check of its state and the change of its host, and it always stands in the
-- list of the host that owes it.
-- keys: operation, turn, out, +posted, queue, hist, handover, /due, /channels, /turnstats, /clock
-- args:
--   host str: the other one
--   limit int: how many turns that list keeps
-- returns: {"state", "handed_over"}; `handed_over` is true if the turn now belongs to the other host.
-- @include decision
-- @include turn
-- constants: HANDOVER_LIFETIME
local keys = turn_keys()
local turn = load_turn(keys)
local state = turn and turn.state or 'not_found'
if state ~= 'open' then
  return answer({state = state, handed_over = false})
end
local now = now_ms()
redis.call('ZADD', key_handover, now, turn.id) -- first: if the list has another type, nothing is done
write_turn(keys, 'host', arg_host, 'handed_at', now)
redis.call('ZREMRANGEBYRANK', key_handover, 0, -tonumber(arg_limit) - 1)
redis.call('PEXPIRE', key_handover, HANDOVER_LIFETIME)
report(keys, turn, 'handed_over', now, {host = arg_host, by = turn.host})
return answer({state = 'open', handed_over = true})
