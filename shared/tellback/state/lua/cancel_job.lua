-- Cancels a command wherever it is: not yet applied (a tombstone waits for it), queued (its record is stored here), or
-- running (its worker is told).
-- KEYS: 1 op, 2 job, 3 jobs of the pool, 4 joborder of the pool, 5 pools, 6 records, 7 recorded, 8 done, 9 hist, 10 stop, 11 counters
-- ARGV: 1 command id, 2 pool, 3 record and 4 history entry of a command that never ran
-- Returns JSON {"state": what it was: "unknown" | "queued" | "running" | "done", "next": id of a further attempt, or ""}
-- @include decision
-- @include jobs
local replayed = replay()
if replayed then
  return replayed
end
local keys = {
  job = KEYS[2], jobs = KEYS[3], order = KEYS[4], pools = KEYS[5],
  records = KEYS[6], recorded = KEYS[7], done = KEYS[8], hist = KEYS[9], stats = KEYS[11],
}
local job = redis.call('HMGET', keys.job, 'state', 'member', 'next')
if not job[1] or job[1] == 'cancelled' then
  redis.call('HSET', keys.job, 'state', 'cancelled')
  redis.call('PEXPIRE', keys.job, WEEK)
  return answer({ state = 'unknown', next = '' })
end
if job[1] == 'queued' then
  dequeue(keys, job[2], ARGV[2])
  store_record(keys, ARGV[3], ARGV[4], 'cancelled')
elseif job[1] == 'running' and redis.call('EXISTS', KEYS[10]) == 0 then
  redis.call('RPUSH', KEYS[10], '1')
  redis.call('PEXPIRE', KEYS[10], 86400000)
end
return answer({ state = job[1], next = job[3] or '' })
