-- What is to be embedded anew of a bank that is to have another model: its contexts written since what is embedded
-- already. Atomic, so that texts belong to their versions. Where nothing is embedded yet for this bank and this model,
-- all begins here, and what was embedded for another is void. A bank that has the model already has nothing to embed.
--
-- KEYS: 1 bank, 2 ctxver, 3 ctxtext, 4 next, 5 nextvec
-- ARGV: 1 model, 2 its weights, 3 its dimension, 4 most contexts to return
-- Returns {bank as a flat hash, version from which, version up to which these contexts are all, contexts of the bank,
-- slots, texts}.

local id, version, model, weights, dimension =
  unpack(redis.call('HMGET', KEYS[1], 'id', 'version', 'model', 'weights', 'dimension'))
if not id or (model == ARGV[1] and (weights or '') == ARGV[2] and dimension == ARGV[3]) then
  return {redis.call('HGETALL', KEYS[1]), 0, 0, redis.call('ZCARD', KEYS[2]), {}, {}}
end
local meant = {id, ARGV[1], ARGV[2], ARGV[3]}
local found = redis.call('HMGET', KEYS[4], 'id', 'model', 'weights', 'dimension')
local same = true
for i = 1, 4 do same = same and found[i] == meant[i] end
if not same then
  redis.call('UNLINK', KEYS[4], KEYS[5])
  redis.call('HSET', KEYS[4], 'id', meant[1], 'model', meant[2], 'weights', meant[3], 'dimension', meant[4], 'upto', 0)
  redis.call('PEXPIRE', KEYS[4], 604800000)
end
local from = tonumber(redis.call('HGET', KEYS[4], 'upto'))
local told = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. from, '+inf', 'WITHSCORES', 'LIMIT', 0, tonumber(ARGV[4]))
local slots, upto = {}, tonumber(version or 0)
for i = 1, #told, 2 do slots[#slots + 1] = told[i] end
if #slots == tonumber(ARGV[4]) then upto = tonumber(told[#told]) end
local texts = #slots > 0 and redis.call('HMGET', KEYS[3], unpack(slots)) or {}
return {redis.call('HGETALL', KEYS[1]), from, upto, redis.call('ZCARD', KEYS[2]), slots, texts}
