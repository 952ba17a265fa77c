-- flags: allow-oom
-- Store the record of a queued command that no worker serves, unless it was leased or cancelled meanwhile. Nor if the
-- host came back: the caller may have stood still since it looked. Atomic: a worker could lease the command between the
-- check and the record, and it would end in two records.
-- keys: job, +done, jobs, +joborder, +jobabsent, records, +recorded, +hist, /pools, /cmdstats, /clock
-- args:
--   member str: of the queue
--   pool str
--   since int: start of the absence that the caller saw
--   record text: JSON
--   history text: its history entry, JSON without its first brace
-- returns: 1, or 0 if the command is no longer queued or that absence has ended.
-- @include jobs
-- @include records
check_records()
if redis.call('GET', key_jobabsent) ~= arg_since then
  return 0
end
check_queue()
if redis.call('HGET', key_job, 'state') ~= 'queued' or not dequeue(arg_member, arg_pool, key_jobabsent) then
  return 0
end
store_record(arg_record, arg_history, 'abandoned')
return 1
