-- flags: allow-oom
-- Answer an overdue turn with a fallback, if it is still unanswered. Atomic: the turn's state and its delivery change
-- together, and of many sweeps over the same turn only one writes a fallback.
-- keys: turn, out, +posted, queue, hist, /due, /channels, /turnstats, /clock
-- args:
--   turn_id str
--   response text: JSON
-- returns: 'fallback', 'waits' (the deadline is still ahead), 'closed' or 'not_found', and the due set is correct
--   afterwards. In place of 'fallback' the `surplus` of the queue, if there is one; see lib/outbox (JSON).
-- @include clock
-- @include turn
local keys = turn_keys()
redis.call('LLEN', keys.queue) -- of another type: fails before anything has changed
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
close_turn(keys, turn.id, 'fallback', now, 'delivery', 'waiting')
post(keys, turn, 'fallback', arg_response, now)
report(keys, turn, 'fallback', now, {text = cjson.decode(arg_response).text, overdue = overdue})
observe(keys.turnstats, 'overdue', overdue)
local found = surplus(keys.queue)
return found and cjson.encode(found) or 'fallback'
