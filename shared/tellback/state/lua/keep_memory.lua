-- Keeps the vector that a fact which a bank holds has in the model that the bank is to have. Atomic, so that what is
-- embedded is told exactly, whoever dies. One fact a call: a vector set takes some milliseconds for it.
--
-- KEYS: 1 memnext, 2 memver, 3 memnextvec, 4 memnextset
-- ARGV: 1 id of the facts, 2 model, 3 weights, 4 version from which, 5 version up to which nothing is left with this
--       fact, 6 kind; then the fact and its vector, or neither where nothing but facts that went is left
-- Returns 'ok' | 'stale': another process goes on with this bank, or for another model; look again.

local found = redis.call('HMGET', KEYS[1], 'id', 'model', 'weights', 'upto')
if found[1] ~= ARGV[1] or found[2] ~= ARGV[2] or found[3] ~= ARGV[3] or found[4] ~= ARGV[4] then return 'stale' end
-- One that was forgotten meanwhile, or told anew, has another version, or none.
if ARGV[7] and tonumber(redis.call('ZSCORE', KEYS[2], ARGV[7]) or -1) == tonumber(ARGV[5]) then
  if ARGV[6] == 'set' then
    redis.call('VADD', KEYS[4], 'FP32', ARGV[8], ARGV[7], 'NOQUANT')
  else
    redis.call('HSET', KEYS[3], ARGV[7], ARGV[8])
  end
end
redis.call('HSET', KEYS[1], 'upto', ARGV[5])
for _, key in ipairs({KEYS[1], KEYS[3], KEYS[4]}) do redis.call('PEXPIRE', key, 604800000) end
return 'ok'
