-- Stores the record of a queued command that nobody is there to run, unless it was leased or cancelled meanwhile.
-- KEYS: 1 job, 2 jobs of the pool, 3 joborder of the pool, 4 pools, 5 records, 6 recorded, 7 done, 8 hist, 9 counters
-- ARGV: 1 member of the queue, 2 pool, 3 record, 4 history entry
-- Returns 1 | 0
-- @include jobs
local keys = {
  job = KEYS[1], jobs = KEYS[2], order = KEYS[3], pools = KEYS[4],
  records = KEYS[5], recorded = KEYS[6], done = KEYS[7], hist = KEYS[8], stats = KEYS[9],
}
if redis.call('HGET', keys.job, 'state') ~= 'queued' or not dequeue(keys, ARGV[1], ARGV[2]) then
  return 0
end
store_record(keys, ARGV[3], ARGV[4], 'abandoned')
return 1
