-- flags: allow-oom
-- Apply a host's answer to a turn, or its notice that there will be none. Atomic: the turn's state and its delivery
-- change together, and no crash leaves one without the other. If the turn was lost in a failover, the script first
-- restores it; see lib/restore.
-- keys: operation, turn, out, queue, hist, /due, /channels, /turnstats, /turns, /clock, evicted_turn?, evicted_hist?
-- args:
--   response text: JSON
--   code str: of the error, or ''
--   excerpt str: for the history
--   late_ms int: how long after a fallback an answer is still sent
--   evicted str: idempotency key of the delivery to evict, or ''
--   lost_id str: of a turn to restore, '' to restore none
--   lost_channel str
--   lost_conversation str
--   lost_session str
--   lost_message_id str
--   lost_language str
--   lost_opened_at int: ms
--   lost_state str: in which it was opened
--   lost_within_ms int: time to answer, if it is still open
-- returns: {"result": accepted | replaced | late | stale | duplicate | closed | merged | not_found}. If the queue is
--   full, returns what `check_eviction` of lib/eviction returns and changes nothing.
-- @include decision
-- @include answer
-- @include eviction
-- @include restore
local replayed = replay()
if replayed then
  return replayed
end
local keys, now = turn_keys(), now_ms()
local full = check_eviction(keys, arg_evicted)
if full then
  return cjson.encode(full)
end
local turn = load_or_restore(keys, now)
return answer({result = answer_turn(keys, turn, arg_response, arg_code, arg_excerpt, arg_late_ms, now)})
