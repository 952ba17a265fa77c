-- flags: allow-oom
-- Answer an overdue turn with a fallback, if it is still unanswered. Atomic: the turn's state and its delivery change
-- together, and of many sweeps over the same turn only one writes a fallback.
-- keys: turn, out, queue, hist, /due, /channels, /turnstats, /clock, evicted_turn?, evicted_hist?
-- args:
--   turn_id str
--   response text: JSON
--   evicted str: idempotency key of the delivery to evict, or ''
-- returns: 'fallback', 'waits' (the deadline is still ahead), 'closed' or 'not_found', and the due set is correct
--   afterwards. If the queue is full, returns what `check_eviction` of lib/eviction returns (JSON) and changes nothing.
-- @include clock
-- @include turn
-- @include eviction
local keys = turn_keys()
local turn = load_turn(keys)
if not turn or (turn.state ~= 'open' and turn.state ~= 'finishing') then
  redis.call('ZREM', keys.due, arg_turn_id)
  return turn and 'closed' or 'not_found'
end
local now, overdue = now_ms(), observed() - tonumber(turn.deadline)
if overdue < 0 then
  schedule_sweep(keys, turn.id, turn.deadline)
  return 'waits'
end
local full = check_eviction(keys, arg_evicted)
if full then
  return cjson.encode(full)
end
close_turn(keys, turn.id, 'fallback', now, 'delivery', 'waiting')
post(keys, turn, 'fallback', arg_response, now)
report(keys, turn, 'fallback', now, {text = cjson.decode(arg_response).text, overdue = overdue})
observe(keys.stats, 'overdue', overdue)
return 'fallback'
