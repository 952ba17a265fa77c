-- Declares a running command lost, when its lease has run out: stores the record that says so and, if there is to be
-- another attempt, queues that under an id of its own in the same step.
-- KEYS: 1 job, 2 running, 3 records, 4 recorded, 5 done, 6 hist, 7 stop, 8 job of the next attempt, 9 jobs of the pool,
--   10 joborder of the pool, 11 pools, 12 counters
-- ARGV: 1 command id, 2 record, 3 history entry, 4 id of the next attempt ('' for none), 5 session, 6 pool, 7 priority,
--   8 the submitted message of the next attempt, 9 its number
-- Returns 'ok' | 'held'
-- @include jobs
local until_ms = redis.call('ZSCORE', KEYS[2], ARGV[1])
if not until_ms or tonumber(until_ms) > now_ms() then
  return 'held'
end
redis.call('ZREM', KEYS[2], ARGV[1])
if redis.call('HGET', KEYS[1], 'state') ~= 'running' then
  return 'held'
end
local stopped = redis.call('EXISTS', KEYS[7]) == 1
redis.call('DEL', KEYS[7])
local keys = { job = KEYS[1], records = KEYS[3], recorded = KEYS[4], done = KEYS[5], hist = KEYS[6], stats = KEYS[12] }
store_record(keys, ARGV[2], ARGV[3], 'lost')
if ARGV[4] ~= '' and not stopped and redis.call('EXISTS', KEYS[8]) == 0 then
  redis.call('HSET', KEYS[1], 'next', ARGV[4])
  enqueue({ job = KEYS[8], jobs = KEYS[9], order = KEYS[10], pools = KEYS[11] },
    ARGV[4], ARGV[5], ARGV[6], ARGV[7], ARGV[8], ARGV[9])
end
return 'ok'
