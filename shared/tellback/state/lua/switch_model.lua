-- Gives a bank another model: the vectors that were embedded meanwhile become its contexts'. Atomic, so that a worker
-- sees the old model with the old vectors or the new one with the new, and nothing of a context that came last is lost.
-- The bank has another id from then on: workers load it anew, and what was placed by the old vectors is stale.
--
-- KEYS: 1 bank, 2 ctxvec, 3 next, 4 nextvec, 5 lastvec
-- ARGV: 1 id of the bank, 2 its version, 3 its id from now on, 4 model, 5 weights, 6 dimension, 7 threshold
-- Returns 'ok' | 'stale': contexts were written since, or somebody else has switched; look again.

local bank = redis.call('HMGET', KEYS[1], 'id', 'version')
local found = redis.call('HMGET', KEYS[3], 'id', 'model', 'weights', 'upto')
if bank[1] ~= ARGV[1] or tonumber(bank[2]) ~= tonumber(ARGV[2]) then return 'stale' end
if found[1] ~= ARGV[1] or found[2] ~= ARGV[4] or found[3] ~= ARGV[5] then return 'stale' end
if tonumber(found[4]) ~= tonumber(ARGV[2]) then return 'stale' end
if redis.call('HLEN', KEYS[4]) ~= redis.call('HLEN', KEYS[2]) then return 'stale' end
if redis.call('EXISTS', KEYS[4]) == 1 then
  redis.call('RENAME', KEYS[2], KEYS[5])  -- not overwritten: freeing so much at once would hold up the server
  redis.call('RENAME', KEYS[4], KEYS[2])
  redis.call('PERSIST', KEYS[2])
  redis.call('UNLINK', KEYS[5])
end
redis.call('HSET', KEYS[1], 'id', ARGV[3], 'model', ARGV[4], 'weights', ARGV[5], 'dimension', ARGV[6],
  'threshold', ARGV[7])
redis.call('UNLINK', KEYS[3])
return 'ok'
