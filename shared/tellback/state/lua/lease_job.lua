-- Moves a queued command to running under a lease, if it is still in its queue: of two workers one gets it.
-- KEYS: 1 job, 2 jobs of the pool, 3 joborder of the pool, 4 pools, 5 running
-- ARGV: 1 command id, 2 member of the queue, 3 pool, 4 token, 5 lease in ms, 6 worker, 7 host
-- Returns {submitted message, attempt, now in ms}, or nil if it is gone
-- @include jobs
local keys = { job = KEYS[1], jobs = KEYS[2], order = KEYS[3], pools = KEYS[4] }
local score = redis.call('ZSCORE', keys.jobs, ARGV[2])
if not score then
  return false
end
local job = redis.call('HMGET', keys.job, 'state', 'session', 'spec', 'attempt')
local priority = math.floor(score / TURNS)
local turn = score % TURNS
local last = 'last:' .. priority .. ':' .. (job[2] or '')
redis.call('HSET', keys.order, 'now:' .. priority, turn)
if tonumber(redis.call('HGET', keys.order, last) or -1) <= turn then
  redis.call('HDEL', keys.order, last) -- nothing of this session waits: it begins at the present turn again
end
dequeue(keys, ARGV[2], ARGV[3])
if job[1] ~= 'queued' then
  return false
end
local now = now_ms()
redis.call('HSET', keys.job, 'state', 'running', 'token', ARGV[4], 'worker', ARGV[6], 'host', ARGV[7])
redis.call('PEXPIRE', keys.job, WEEK)
redis.call('ZADD', KEYS[5], now + ARGV[5], ARGV[1])
redis.call('PEXPIRE', KEYS[5], WEEK)
return { job[3], tonumber(job[4]), now }
