-- flags: allow-oom
-- Declare a running command lost if its lease has expired: store that record and, if there is to be another attempt,
-- queue it under an id of its own. Atomic: a worker must not renew or finish the command in between, and no crash
-- leaves the record without the next attempt.
-- keys: job, +done, +stop, next_job, jobs, +joborder, records, +recorded, +hist, /running, /pools, /cmdstats, /clock
-- args:
--   command_id str
--   record text: JSON
--   history text: its history entry, JSON without its first brace
--   next_id str: of the next attempt, '' for none
--   session str
--   pool str
--   priority int: 0 is first
--   spec text: the submitted message of the next attempt, JSON
--   attempt int: its number
--   grace_ms int: between the first sight of the expired lease and the loss; after an outage of Redis every lease has
--     expired, and workers that are alive renew within it; 0 decides at once
--   token str: of a worker that gives its own lease up, which need not have expired; '' if a sweep asks
--   call str: an id of this call and its retries
--   on_lost str: as in enqueue_job
-- returns: 'ok' | 'held'.
-- @include jobs
-- @include records
local until_ms = redis.call('ZSCORE', key_running, arg_command_id)
local clock = observed() -- by the sweep a moment ago; the server's own clock may have stepped since
local job = redis.call('HMGET', key_job, 'state', 'overdue', 'token', 'finished')
if job[4] == arg_call then
  return 'ok' -- a retry of the call that stored the record
end
if arg_token ~= '' and job[3] ~= arg_token then
  return 'held'
end
if not until_ms or (arg_token == '' and tonumber(until_ms) > clock) then
  return 'held'
end
if job[1] == 'running' and arg_grace_ms ~= '0' and clock < tonumber(job[2] or clock) + arg_grace_ms then
  redis.call('HSETNX', key_job, 'overdue', clock)
  return 'held'
end
if job[1] == 'running' then
  check_records()
  if arg_next_id ~= '' then check_queue() end
end
redis.call('ZREM', key_running, arg_command_id)
if job[1] ~= 'running' then
  return 'held'
end
local stopped = redis.call('EXISTS', key_stop) == 1
redis.call('DEL', key_stop)
redis.call('HSET', key_job, 'finished', arg_call)
store_record(arg_record, arg_history, 'lost')
if arg_next_id ~= '' and not stopped and redis.call('EXISTS', key_next_job) == 0 then
  redis.call('HSET', key_job, 'next', arg_next_id)
  enqueue(key_next_job, arg_next_id, arg_session, arg_pool, arg_priority, arg_spec, arg_attempt, arg_on_lost)
end
return 'ok'
