-- flags: allow-oom
-- Lease the first of some candidate commands that is still queued. A retry with the same token gets the same command,
-- in case the reply was lost. A worker that asks ends the absence of its host. Atomic: of two workers only one gets the
-- command.
-- keys: jobs, +joborder, +jobabsent, /pools, /running, /clock, *candidates
-- args:
--   pool str
--   token str: of the lease
--   lease_ms int
--   worker str
--   host str
--   retry_lease_ms int: lease of a command with on_lost = retry; longer, because its worker must certainly have stopped
--     it before it is retried
--   *members text: of the queue, one for each job; it ends in the command's id
-- returns: {submitted message, attempt, now in ms}, or nil if none of them is queued any more.
-- @include jobs
-- constants: JOB_LIFETIME, JOBORDER_LIFETIME, RUNNING_LIFETIME
check_queue()
redis.call('ZCARD', key_running)
redis.call('DEL', key_jobabsent)

local function take_turn(score, session)
  local priority = math.floor(score / TURNS)
  local turn = score % TURNS
  local last = 'last:' .. priority .. ':' .. (session or '')
  redis.call('HSET', key_joborder, 'now:' .. priority, turn)
  if tonumber(redis.call('HGET', key_joborder, last) or -1) <= turn then
    redis.call('HDEL', key_joborder, last) -- the session has nothing queued: it restarts at the present turn
  end
  redis.call('PEXPIRE', key_joborder, JOBORDER_LIFETIME) -- it may have been lost, and is made again here
end

for i, member in ipairs(args_members) do
  local key_job = keys_candidates[i]
  -- pcall: a key of another type counts as gone, or its command would block the pool
  local job = redis.pcall('HMGET', key_job, 'state', 'session', 'spec', 'attempt', 'token', 'on_lost')
  local score = redis.call('ZSCORE', key_jobs, member)
  if score then
    take_turn(score, job[2])
    dequeue(member, arg_pool, key_jobabsent)
  end
  if (score and job[1] == 'queued') or (job[1] == 'running' and job[5] == arg_token) then
    local now = now_ms()
    redis.call('HSET', key_job, 'state', 'running', 'token', arg_token, 'worker', arg_worker, 'host', arg_host,
      'since', now)
    redis.call('PEXPIRE', key_job, JOB_LIFETIME)
    -- a command that was queued before this field was stored has it in its message alone
    local on_lost = job[6] or cjson.decode(job[3]).on_lost
    local lease_ms = on_lost == 'retry' and arg_retry_lease_ms or arg_lease_ms
    redis.call('ZADD', key_running, steady(now) + lease_ms, string.sub(member, string.find(member, ':', 1, true) + 1))
    redis.call('PEXPIRE', key_running, RUNNING_LIFETIME)
    return { job[3], tonumber(job[4]), now }
  end
end
return false
