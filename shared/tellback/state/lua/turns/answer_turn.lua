-- flags: allow-oom
-- Apply a host's answer to a turn, or its notice that there will be none. Atomic: the turn's state and its delivery
-- change together, and no crash leaves one without the other. If the turn was lost in a failover, the script first
-- restores it; see lib/restore.
-- keys: operation, turn, out, +posted, queue, hist, /due, /channels, /turnstats, /turns, /clock
-- args:
--   response text: JSON
--   code str: of the error, or ''
--   excerpt str: for the history
--   late_ms int: how long after a fallback an answer is still sent
--   lost_id str: of a turn to restore, '' to restore none
--   lost_channel str
--   lost_conversation str
--   lost_session str
--   lost_message_id str
--   lost_language str
--   lost_opened_at int: ms
--   lost_state str: in which it was opened
--   lost_within_ms int: time to answer, if it is still open
-- returns: {"result": accepted | replaced | late | stale | duplicate | closed | merged | not_found, "surplus": of the
--   queue, see lib/outbox}.
-- @include decision
-- @include answer
-- @include restore
local keys, now = turn_keys(), now_ms()
redis.call('LLEN', keys.queue) -- of another type: fails before anything has changed
local turn = load_or_restore(keys, now)
local result = answer_turn(keys, turn, arg_response, arg_code, arg_excerpt, arg_late_ms, now)
local found = surplus(keys.queue)
return answer({result = result, surplus = found})
