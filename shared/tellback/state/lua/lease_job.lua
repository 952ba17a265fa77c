-- Moves the first of some queued commands that is still in its queue to running under a lease: of two workers one gets
-- it. Whoever asks again with the same token, since the reply was lost, gets the same command.
-- KEYS: 1 jobs of the pool, 2 joborder of the pool, 3 pools, 4 running, 5 and on: job of each command
-- ARGV: 1 pool, 2 token, 3 lease in ms, 4 worker, 5 host, 6 and on: member of the queue, ending in the id, of each command
-- Returns {submitted message, attempt, now in ms}, or nil if all are gone
-- @include jobs
local keys = { jobs = KEYS[1], order = KEYS[2], pools = KEYS[3] }

local function take_turn(score, session)
  local priority = math.floor(score / TURNS)
  local turn = score % TURNS
  local last = 'last:' .. priority .. ':' .. (session or '')
  redis.call('HSET', keys.order, 'now:' .. priority, turn)
  if tonumber(redis.call('HGET', keys.order, last) or -1) <= turn then
    redis.call('HDEL', keys.order, last) -- nothing of this session waits: it begins at the present turn again
  end
end

for place = 6, #ARGV do
  local member = ARGV[place]
  local job = redis.call('HMGET', KEYS[place - 1], 'state', 'session', 'spec', 'attempt', 'token')
  local score = redis.call('ZSCORE', keys.jobs, member)
  if score then
    take_turn(score, job[2])
    dequeue(keys, member, ARGV[1])
  end
  if (score and job[1] == 'queued') or (job[1] == 'running' and job[5] == ARGV[2]) then
    local now = now_ms()
    redis.call('HSET', KEYS[place - 1], 'state', 'running', 'token', ARGV[2], 'worker', ARGV[4], 'host', ARGV[5])
    redis.call('PEXPIRE', KEYS[place - 1], WEEK)
    redis.call('ZADD', KEYS[4], now + ARGV[3], string.sub(member, string.find(member, ':', 1, true) + 1))
    redis.call('PEXPIRE', KEYS[4], WEEK)
    return { job[3], tonumber(job[4]), now }
  end
end
return false
