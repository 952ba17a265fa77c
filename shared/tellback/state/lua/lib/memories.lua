-- For scripts that write remembered facts: KEYS[1] and [2] as `intake` says, then 3 mem, 4 memtext, 5 memvec,
-- 6 memver, 7 memgone, 8 memset, 9 memseen, 10 memseen-old, 11 memnextvec, 12 memnextset, 13 membanks. Of memvec and
-- memset a bank has one: what `kind` of its mem says, 'vectors' or 'set'; likewise of memnextvec and memnextset.
-- @include intake
local GONE_KEPT = 10000

-- Whether this event was applied before; it is noted.
local function applied_before(event_id)
  if redis.call('SISMEMBER', KEYS[9], event_id) + redis.call('SISMEMBER', KEYS[10], event_id) > 0 then return true end
  redis.call('SADD', KEYS[9], event_id)
  redis.call('PEXPIRE', KEYS[9], 604800000)
  if redis.call('SCARD', KEYS[9]) > 50000 then redis.call('RENAME', KEYS[9], KEYS[10]) end
  return false
end

-- Takes a fact out, also of the vectors of a model that the bank is yet to have. A process that holds the bank's
-- vectors learns of it by its version among the gone ones.
local function drop_fact(kind, fact_id)
  local size = redis.call('HSTRLEN', KEYS[4], fact_id)
  if size == 0 then return false end
  redis.call('HDEL', KEYS[4], fact_id)
  redis.call('HINCRBY', KEYS[3], 'bytes', -size)
  redis.call('ZREM', KEYS[6], fact_id)
  local version = redis.call('HINCRBY', KEYS[3], 'version', 1)
  if kind == 'set' then
    redis.call('VREM', KEYS[8], fact_id)
    redis.call('VREM', KEYS[12], fact_id)
    return true
  end
  redis.call('HDEL', KEYS[5], fact_id)
  redis.call('HDEL', KEYS[11], fact_id)
  redis.call('ZADD', KEYS[7], version, fact_id)
  local over = redis.call('ZCARD', KEYS[7]) - GONE_KEPT
  if over > 0 then
    local lost = redis.call('ZPOPMIN', KEYS[7], over)
    redis.call('HSET', KEYS[3], 'floor', lost[#lost])  -- who knows an older version loads everything again
  end
  return true
end
