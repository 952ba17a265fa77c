-- flags: allow-oom
-- Apply CommandSubmitted: queue the command, or store its record at once if it cannot run or was cancelled. Atomic:
-- the entry leaves the intake exactly when the command is queued or has its record. If the queue is full, nothing
-- changes: the caller refuses the command in a second call, so that no other call carries one more record.
-- keys: intake, +lease, job, +done, jobs, +joborder, records, +recorded, +hist, +activity, /pools, /cmdstats,
--   /sessions, /clock
-- args:
--   fence int
--   entries text: JSON array of the ids that leave the stream
--   command_id str
--   session str
--   pool str
--   priority int: 0 is first
--   spec text: the submitted message, JSON
--   refused text: record of a refusal, JSON, or '' if the command may run
--   refused_history text: its history entry, JSON without its first brace
--   cancelled text: record of a cancellation, JSON
--   cancelled_history text: its history entry, JSON without its first brace
--   on_lost str: what to do if its worker is lost; kept for lease_job
--   queue_max int: commands in the queue at which it is full
-- returns: 'ok' | 'full' | 'fenced'.
-- @include intake
-- @include jobs
-- @include records
-- @include sessions
if fenced() then
  return 'fenced'
end
if arg_refused == '' and redis.call('ZCARD', key_jobs) >= tonumber(arg_queue_max) then
  return 'full'
end
check_records()
local state = redis.call('HGET', key_job, 'state') -- before `ack`: it fails for a key of another type
if not state and arg_refused == '' then check_queue() end
ack()
redis.call('HSET', key_job, 'session', arg_session) -- also of one that never runs: it can be waived by its id
note_activity(key_sessions, key_activity, arg_session, now_ms(), 0, 0)
if state == 'cancelled' then -- by a host of an earlier release, before the submission was applied
  store_record(arg_cancelled, arg_cancelled_history, 'cancelled')
elseif state then
  return 'ok' -- submitted or delivered twice
elseif arg_refused ~= '' then
  store_record(arg_refused, arg_refused_history, 'refused')
else
  enqueue(key_job, arg_command_id, arg_session, arg_pool, arg_priority, arg_spec, 1, arg_on_lost)
end
return 'ok'
