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
local keys = {
  job = key_job, jobs = key_jobs, order = key_joborder, pools = key_pools, absent = key_jobabsent,
  records = key_records, recorded = key_recorded, done = key_done, hist = key_hist, stats = key_cmdstats,
}
check_records(keys.records)
if redis.call('GET', keys.absent) ~= arg_since then
  return 0
end
check_queue(keys)
if redis.call('HGET', keys.job, 'state') ~= 'queued' or not dequeue(keys, arg_member, arg_pool) then
  return 0
end
store_record(keys, arg_record, arg_history, 'abandoned')
return 1
