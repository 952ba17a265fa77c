-- flags: allow-oom
-- Commit the effects of a batch of events on one evaluation: its state, the ids it has seen, the feedback it earned,
-- the history lines and the counters. Atomic with the acknowledgement: whichever process dies, an event counts once
-- and its feedback is sent once. The version stops two consumers from building on the same state.
-- keys: intake, +lease, +wakeup, evaluation, +seen, +seen_old, +mailbox, hist, +activity, guidestats, /timers,
--   /sessions
-- args:
--   fence int
--   entries text: JSON array of the ids that leave the stream
--   version text: that was loaded, '0' for none
--   new_version text
--   state bytes
--   calls int: tool calls counted
--   check_seen flag: true if nobody has checked yet whether the event ids were seen
--   timer str: the member of timers
--   next_timer str: see lib/evaluation
--   session_name str
--   at int: when the newest event came
--   new_calls int: tool calls of this batch
--   or_release flag: release the stream if no entry is left in it; else its consumer has to ask for the next ones
--   outdated text: slots whose waiting feedback is outdated (JSON array), or ''
--   *newest_calls text: field and value of each newest call, in turn
--   *event_ids str
--   *feedback text: JSON
--   *counts arg: counter and increment, in turn
--   *lines text: of the history, JSON
--   *newest arg: field and value of what is newest in the session, in turn
-- returns: 'ok' | 'released' | 'fenced' | 'stale': the version has changed, or an unchecked id was seen before; load
--   again.
-- @include intake
-- @include history
-- @include seen
-- @include tally
-- @include evaluation
-- @include sessions
-- @include release
if fenced() then
  return 'fenced'
end
if (redis.call('HGET', key_evaluation, 'version') or '0') ~= arg_version then
  return 'stale'
end
if arg_check_seen == '1' and #args_event_ids > 0 and any_seen(key_seen, key_seen_old, unpack(args_event_ids)) then
  return 'stale'
end
-- First: if one of the keys that it writes has another type, nothing is done.
redis.call('SCARD', key_seen)
if arg_next_timer ~= '' then redis.call('ZCARD', key_timers) end
redis.call('LLEN', key_mailbox)
ack()
store_state(arg_new_version, arg_state, arg_calls, unpack(args_newest_calls))
schedule(arg_timer, arg_next_timer)
if #args_event_ids > 0 then
  mark_seen(key_seen, key_seen_old, unpack(args_event_ids))
end
if arg_outdated ~= '' then
  local slots = {}
  for _, slot in ipairs(cjson.decode(arg_outdated)) do
    slots[slot] = true
  end
  drop_outdated(slots)
end
if #args_feedback > 0 then
  deliver(unpack(args_feedback))
end
tally_given(key_guidestats, args_counts)
append_history(key_hist, unpack(args_lines))
note_activity(key_sessions, key_activity, arg_session_name, arg_at, arg_new_calls, #args_feedback, unpack(args_newest))
if arg_or_release == '1' and redis.call('XLEN', key_intake) == 0 then
  release()
  return 'released'
end
return 'ok'
