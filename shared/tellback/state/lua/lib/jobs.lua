-- A pool's queue. Scripts declare the keys jobs, joborder and pools. `jobs` is sorted by priority, then by turn. A
-- session's next command gets the turn after its last one, or the present turn if that is later. Sessions therefore
-- alternate, however many commands one of them has queued.
-- `joborder` holds `seq`, `now:PRIORITY` (the turn of the last leased command) and `last:PRIORITY:SESSION`.
-- @include steady
-- constants: JOB_LIFETIME, JOBS_LIFETIME, JOBORDER_LIFETIME, POOLS_LIFETIME
local TURNS = 1099511627776 -- 2^40: priority * TURNS + turn stays exact in a double

-- Fails if a key of the queue has another type, or the clock cannot be read. A script that changes a queue calls it
-- before it changes anything: what it has done when it fails later stays done, and the command would be in no queue and
-- have no record.
local function check_queue()
  redis.call('ZCARD', key_jobs)
  redis.call('HLEN', key_joborder)
  redis.call('ZCARD', key_pools)
  steady(now_ms())
end

local function enqueue(job, id, session, pool, priority, spec, attempt, on_lost)
  local last = 'last:' .. priority .. ':' .. session
  local turn = math.max(tonumber(redis.call('HGET', key_joborder, 'now:' .. priority) or 0),
    tonumber(redis.call('HGET', key_joborder, last) or -1) + 1)
  local member = string.format('%015d:', redis.call('HINCRBY', key_joborder, 'seq', 1)) .. id
  redis.call('HSET', key_joborder, last, turn)
  redis.call('PEXPIRE', key_joborder, JOBORDER_LIFETIME)
  redis.call('ZADD', key_jobs, priority * TURNS + turn, member)
  redis.call('PEXPIRE', key_jobs, JOBS_LIFETIME)
  -- due_now: with a time ahead by a step the queue would look busy for as long, and no sweep would wake its workers
  redis.call('ZADD', key_pools, due_now(now_ms()), pool)
  redis.call('PEXPIRE', key_pools, POOLS_LIFETIME)
  redis.call('HSET', job, 'state', 'queued', 'session', session, 'pool', pool, 'spec', spec, 'member', member,
    'attempt', attempt, 'on_lost', on_lost, 'since', now_ms())
  redis.call('PEXPIRE', job, JOB_LIFETIME)
end

-- Removes a command from its queue; false if it is not there. An empty queue leaves nothing behind, because its order
-- keeps a field for every session that ever had a command in it; `absent`, the key of a host's absence, counts only
-- while commands wait.
local function dequeue(member, pool, absent)
  if redis.call('ZREM', key_jobs, member) == 0 then
    return false
  end
  if redis.call('EXISTS', key_jobs) == 0 then
    redis.call('DEL', key_joborder, absent)
    redis.call('ZREM', key_pools, pool)
  else
    redis.call('ZADD', key_pools, due_now(now_ms()), pool)
  end
  return true
end
