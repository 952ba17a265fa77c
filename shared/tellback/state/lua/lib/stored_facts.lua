-- The write of a stored fact. A bank has factvec or factset, as `kind` of its factinfo says ('vectors' or 'set');
-- likewise factnextvec or factnextset.
-- @include intake
-- @include seen
-- @include stamps
local DELETED_CAP = 10000

-- First: if a key of the bank has another type, nothing is done.
expect_type('hash', key_factinfo, key_facttext, key_factvec, key_factnextvec)
expect_type('zset', key_factver, key_factstamps, key_factdeleted)
expect_type('vectorset', key_factset, key_factnextset)
expect_type('set', key_factseen, key_factseen_old)

-- True if this event was applied before; marks it as applied.
local function applied_before(event_id)
  if any_seen(key_factseen, key_factseen_old, event_id) then return true end
  mark_seen(key_factseen, key_factseen_old, event_id)
  return false
end

-- Deletes a fact, also from the vectors of the bank's next model. A process that caches the bank's vectors learns of it
-- from the deleted facts, by version.
local function drop_fact(kind, fact_id)
  local size = redis.call('HSTRLEN', key_facttext, fact_id)
  if size == 0 then return false end
  redis.call('HDEL', key_facttext, fact_id)
  redis.call('HINCRBY', key_factinfo, 'bytes', -size)
  redis.call('ZREM', key_factver, fact_id)
  local version = redis.call('HINCRBY', key_factinfo, 'version', 1)
  add_stamp(key_factinfo, key_factstamps, version, arg_new_stamp)
  if kind == 'set' then
    redis.call('VREM', key_factset, fact_id)
    redis.call('VREM', key_factnextset, fact_id)
    return true
  end
  redis.call('HDEL', key_factvec, fact_id)
  redis.call('HDEL', key_factnextvec, fact_id)
  redis.call('ZADD', key_factdeleted, version, fact_id)
  local over = redis.call('ZCARD', key_factdeleted) - DELETED_CAP
  if over > 0 then
    local lost = redis.call('ZPOPMIN', key_factdeleted, over)
    redis.call('HSET', key_factinfo, 'floor', lost[#lost])  -- a cache older than this reloads everything
  end
  return true
end
