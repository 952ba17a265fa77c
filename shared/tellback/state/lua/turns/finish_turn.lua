-- flags: allow-oom
-- Apply one TurnFinished. Atomic: the entry leaves the intake exactly when its effect is stored. If the turn was lost
-- in a failover, the script first restores it; see lib/restore.
-- keys: intake, +lease, turn, out, +posted, queue, hist, /due, /channels, /turnstats, /turns, /clock
-- args:
--   fence int
--   entries text: JSON array of the ids that leave the stream
--   response text: JSON, or '' if the pipeline prepared none and the turn stays owed
--   code str: of the error, or ''
--   excerpt str: for the history
--   late_ms int: how long after a fallback an answer is still sent
--   routed text: the routing report for the history (JSON), or ''
--   lost_id str: of a turn to restore, '' to restore none
--   lost_channel str
--   lost_conversation str
--   lost_session str
--   lost_message_id str
--   lost_language str
--   lost_opened_at int: ms
--   lost_state str: in which it was opened
--   lost_within_ms int: time to answer, if it is still open
-- returns: 'ok', 'fenced', or 'not_found' (no such turn; the entry stays in the intake, for the dead letters). In place
--   of 'ok' the `surplus` of the queue, if there is one; see lib/outbox (JSON).
-- @include intake
-- @include answer
-- @include restore
if fenced() then
  return 'fenced'
end
local keys, now = turn_keys(), now_ms()
redis.call('LLEN', keys.queue) -- of another type: fails before anything has changed
local turn = load_or_restore(keys, now)
if not turn then
  return 'not_found'
end
local is_new = ack()
if arg_response ~= '' then
  answer_turn(keys, turn, arg_response, arg_code, arg_excerpt, arg_late_ms, now)
end
if arg_routed ~= '' and is_new then -- else a retry of the call that applied it
  report(keys, turn, 'routed', now, cjson.decode(arg_routed))
end
local found = surplus(keys.queue)
return found and cjson.encode(found) or 'ok'
