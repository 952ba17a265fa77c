-- What is to be embedded anew of the facts that a bank holds, when it is to have another model: those told since what is
-- embedded already. Atomic, so that texts belong to their versions. Where nothing is embedded yet for these facts and
-- this model, all begins here, and what was embedded for another is void. Facts that have the model already have
-- nothing to embed.
--
-- KEYS: 1 mem, 2 memver, 3 memtext, 4 memnext, 5 memnextvec, 6 memnextset
-- ARGV: 1 model, 2 its weights, 3 its dimension, 4 most facts to return
-- Returns {mem as a flat hash, version from which, version up to which these facts are all, facts of the bank, facts
-- with their versions, records}.

local mem = redis.call('HMGET', KEYS[1], 'id', 'version', 'model', 'weights', 'dimension')
if not mem[1] or (mem[3] == ARGV[1] and (mem[4] or '') == ARGV[2] and mem[5] == ARGV[3]) then
  return {redis.call('HGETALL', KEYS[1]), 0, 0, redis.call('ZCARD', KEYS[2]), {}, {}}
end
local meant = {mem[1], ARGV[1], ARGV[2], ARGV[3]}
local found = redis.call('HMGET', KEYS[4], 'id', 'model', 'weights', 'dimension')
local same = true
for i = 1, 4 do same = same and found[i] == meant[i] end
if not same then
  redis.call('UNLINK', KEYS[4], KEYS[5], KEYS[6])
  redis.call('HSET', KEYS[4], 'id', meant[1], 'model', meant[2], 'weights', meant[3], 'dimension', meant[4], 'upto', 0)
  redis.call('PEXPIRE', KEYS[4], 604800000)
end
local from = tonumber(redis.call('HGET', KEYS[4], 'upto'))
local told = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. from, '+inf', 'WITHSCORES', 'LIMIT', 0, tonumber(ARGV[4]))
local names, upto = {}, tonumber(mem[2])
for i = 1, #told, 2 do names[#names + 1] = told[i] end
if #names == tonumber(ARGV[4]) then upto = tonumber(told[#told]) end
local records = #names > 0 and redis.call('HMGET', KEYS[3], unpack(names)) or {}
return {redis.call('HGETALL', KEYS[1]), from, upto, redis.call('ZCARD', KEYS[2]), told, records}
