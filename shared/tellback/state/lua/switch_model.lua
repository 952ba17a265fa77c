-- Gives a bank another model: the vectors that were embedded meanwhile become those of its contexts, and of the facts
-- that it holds. Atomic, so that a worker sees the old model with the old vectors or the new one with the new, and nothing
-- that came last is lost. Bank and facts have other ids from then on: who knows them loads them anew, and what was
-- placed by the old vectors is stale. Of the two, one that is not there or has the model already is left alone.
--
-- KEYS: 1 bank, 2 ctxvec, 3 next, 4 nextvec, 5 lastvec, 6 mem, 7 memtext, 8 memvec, 9 memset, 10 memnext, 11 memnextvec,
--       12 memnextset
-- ARGV: 1 id of the bank or '', 2 its version, 3 id of its facts or '', 4 their version, 5 id of both from now on,
--       6 model, 7 weights, 8 dimension, 9 threshold
-- Returns 'ok' | 'stale': contexts or facts were written since, or somebody else has switched; look again.

local function due(key)
  local has = redis.call('HMGET', key, 'id', 'model', 'weights', 'dimension')
  return has[1] and not (has[2] == ARGV[6] and (has[3] or '') == ARGV[7] and has[4] == ARGV[8])
end

-- Whether the bank, or its facts, are those that the caller saw, with nothing left to be embedded.
local function ready(key, next_key, id, version)
  local has = redis.call('HMGET', key, 'id', 'version')
  if (has[1] or '') ~= id then return false end
  if not due(key) then return true end
  local found = redis.call('HMGET', next_key, 'id', 'model', 'weights', 'upto')
  if found[1] ~= id or found[2] ~= ARGV[6] or found[3] ~= ARGV[7] then return false end
  return tonumber(has[2]) == tonumber(version) and tonumber(found[4]) == tonumber(version)
end

if not ready(KEYS[1], KEYS[3], ARGV[1], ARGV[2]) then return 'stale' end
if not ready(KEYS[6], KEYS[10], ARGV[3], ARGV[4]) then return 'stale' end
local contexts, facts = due(KEYS[1]), due(KEYS[6])
local set = redis.call('HGET', KEYS[6], 'kind') == 'set'

-- Vectors that are lost are embedded anew.
if contexts and redis.call('HLEN', KEYS[4]) ~= redis.call('HLEN', KEYS[2]) then
  redis.call('UNLINK', KEYS[3])
  return 'stale'
end
if facts then
  local kept = set and redis.call('VCARD', KEYS[12]) or redis.call('HLEN', KEYS[11])
  if kept ~= redis.call('HLEN', KEYS[7]) then
    redis.call('UNLINK', KEYS[10])
    return 'stale'
  end
end

local model = {'id', ARGV[5], 'model', ARGV[6], 'weights', ARGV[7], 'dimension', ARGV[8]}
if contexts then
  if redis.call('EXISTS', KEYS[4]) == 1 then
    redis.call('RENAME', KEYS[2], KEYS[5])  -- not overwritten: freeing so much at once would hold up the server
    redis.call('RENAME', KEYS[4], KEYS[2])
    redis.call('PERSIST', KEYS[2])
    redis.call('UNLINK', KEYS[5])
  end
  redis.call('HSET', KEYS[1], 'threshold', ARGV[9], unpack(model))
  redis.call('UNLINK', KEYS[3])
end
if facts then
  local now, new = set and KEYS[9] or KEYS[8], set and KEYS[12] or KEYS[11]
  redis.call('UNLINK', now)  -- not overwritten, as above
  redis.call('RENAME', new, now)
  redis.call('PERSIST', now)
  redis.call('HSET', KEYS[6], unpack(model))
  redis.call('UNLINK', KEYS[10])
end
return 'ok'
