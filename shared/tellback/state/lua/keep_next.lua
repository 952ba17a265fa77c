-- Keeps vectors of the model that a bank is to have. Atomic, so that what is embedded is told exactly, whoever dies.
--
-- KEYS: 1 next, 2 nextvec
-- ARGV: 1 id of the bank, 2 model, 3 weights, 4 version from which, 5 version up to which these contexts are all; then
--       slot, vector, ...
-- Returns 'ok' | 'stale': another process goes on with this bank, or for another model; look again.

local found = redis.call('HMGET', KEYS[1], 'id', 'model', 'weights', 'upto')
if found[1] ~= ARGV[1] or found[2] ~= ARGV[2] or found[3] ~= ARGV[3] or found[4] ~= ARGV[4] then return 'stale' end
local vectors = {}
for i = 6, #ARGV do vectors[i - 5] = ARGV[i] end
if #vectors > 0 then redis.call('HSET', KEYS[2], unpack(vectors)) end
redis.call('HSET', KEYS[1], 'upto', ARGV[5])
for i = 1, 2 do redis.call('PEXPIRE', KEYS[i], 604800000) end
return 'ok'
