-- Switch a bank to another model: the vectors embedded for it become those of the bank's clusters and stored facts.
-- Bank and facts get new ids, which makes processes that cached them load again, and makes placements by the old
-- vectors stale. Of the two, one that does not exist or already has the model is left alone. Atomic: a worker sees the
-- old model with the old vectors or the new one with the new, and no late write is lost.
-- keys: bank, +clustervec, +next, +nextvec, +lastvec, +factinfo, +facttext, +factvec, +factset, +factnext,
--   +factnextvec, +factnextset
-- args:
--   bank_id str: or ''
--   version int: of the bank
--   facts_id str: or ''
--   facts_version int
--   new_id str: of both
--   model str
--   weights str
--   dimension int
--   threshold str
-- returns: 'ok' | 'stale': clusters or facts were written since, or another process has switched; read again.

local function due(key)
  local has = redis.call('HMGET', key, 'id', 'model', 'weights', 'dimension')
  return has[1] and not (has[2] == arg_model and (has[3] or '') == arg_weights and has[4] == arg_dimension)
end

-- True if the bank, or its stored facts, are as the caller saw them and nothing is left to embed.
local function ready(key, next_key, id, version)
  local has = redis.call('HMGET', key, 'id', 'version')
  if (has[1] or '') ~= id then return false end
  if not due(key) then return true end
  local found = redis.call('HMGET', next_key, 'id', 'model', 'weights', 'upto')
  if found[1] ~= id or found[2] ~= arg_model or found[3] ~= arg_weights then return false end
  return tonumber(has[2]) == tonumber(version) and tonumber(found[4]) == tonumber(version)
end

if not ready(key_bank, key_next, arg_bank_id, arg_version) then return 'stale' end
if not ready(key_factinfo, key_factnext, arg_facts_id, arg_facts_version) then return 'stale' end
local clusters, facts = due(key_bank), due(key_factinfo)
local set = redis.call('HGET', key_factinfo, 'kind') == 'set'

-- Some of the new vectors were lost: drop the progress and embed all of them again.
if clusters and redis.call('HLEN', key_nextvec) ~= redis.call('HLEN', key_clustervec) then
  redis.call('UNLINK', key_next)
  return 'stale'
end
if facts then
  local kept = set and redis.call('VCARD', key_factnextset) or redis.call('HLEN', key_factnextvec)
  if kept ~= redis.call('HLEN', key_facttext) then
    redis.call('UNLINK', key_factnext)
    return 'stale'
  end
end

local model = {'id', arg_new_id, 'model', arg_model, 'weights', arg_weights, 'dimension', arg_dimension}
if clusters then
  if redis.call('EXISTS', key_nextvec) == 1 then
    -- RENAME onto it would free all its vectors at once and block the server
    redis.call('RENAME', key_clustervec, key_lastvec)
    redis.call('RENAME', key_nextvec, key_clustervec)
    redis.call('PERSIST', key_clustervec)
    redis.call('UNLINK', key_lastvec)
  end
  redis.call('HSET', key_bank, 'threshold', arg_threshold, unpack(model))
  redis.call('UNLINK', key_next)
end
if facts then
  local now, new = set and key_factset or key_factvec, set and key_factnextset or key_factnextvec
  redis.call('UNLINK', now)  -- freed in the background, as above
  redis.call('RENAME', new, now)
  redis.call('PERSIST', now)
  redis.call('HSET', key_factinfo, unpack(model))
  redis.call('UNLINK', key_factnext)
end
return 'ok'
