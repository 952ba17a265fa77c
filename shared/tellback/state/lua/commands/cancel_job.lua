-- flags: allow-oom
-- Cancel a command in any state. One that waits, in a queue or for its submission to be applied, gets its record here,
-- and the worker of a running one is asked to stop it. Atomic: between the check of the state and its effect a worker
-- could lease the command.
-- keys: operation, job, +done, +stop, jobs, +joborder, +jobabsent, records, +recorded, +hist, /pools, /cmdstats,
--   /sessions, /audit, /clock
-- args:
--   session str
--   pool str
--   record text: of a command that never ran, JSON
--   history text: its history entry, JSON without its first brace
--   entry text: the audit entry, JSON without its first brace
--   phrase text: for the worker of a running command: who cancelled it and why
-- returns: {"state": before the call, "unknown" | "queued" | "running" | "done", "next": id of a further attempt, or
--   ""}.
-- @include decision
-- @include jobs
-- @include records
-- @include sessions
-- @include audit
-- constants: STOP_LIFETIME
check_records()
local job = redis.call('HMGET', key_job, 'state', 'member', 'next')
if job[1] == 'queued' then check_queue() end
if job[1] ~= 'done' then
  append_audit(key_audit, arg_entry)
end
if not job[1] or job[1] == 'cancelled' then -- the latter by a host of an earlier release, which stored no record
  redis.call('HSET', key_job, 'session', arg_session) -- no worker has noted it: the command can be waived by its id
  note_session(key_sessions, now_ms(), arg_session)
  store_record(arg_record, arg_history, 'cancelled')
  return answer({ state = 'unknown', next = '' })
end
if job[1] == 'queued' then
  dequeue(job[2], arg_pool, key_jobabsent)
  store_record(arg_record, arg_history, 'cancelled')
elseif job[1] == 'running' and redis.call('EXISTS', key_stop) == 0 then
  redis.call('RPUSH', key_stop, arg_phrase)
  redis.call('PEXPIRE', key_stop, STOP_LIFETIME)
end
return answer({ state = job[1], next = job[3] or '' })
