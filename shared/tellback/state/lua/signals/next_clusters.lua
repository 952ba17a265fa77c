-- Return the clusters of a bank that its next model has not embedded yet: those written since the last batch.
-- The first call for a bank and model starts from the beginning and drops what was embedded for another model. A bank
-- that already has the model has none. Atomic: the texts belong to their versions, and of two processes only one
-- starts over.
-- keys: bank, +clusterver, +clustertext, +next, +nextvec
-- args:
--   model str
--   weights str
--   dimension int
--   limit int: most clusters to return
-- returns: {bank as a flat hash, version from which, version up to which these clusters are complete, number of
--   clusters of the bank, slots, texts}.
-- constants: NEXT_LIFETIME

local id, version, model, weights, dimension =
  unpack(redis.call('HMGET', key_bank, 'id', 'version', 'model', 'weights', 'dimension'))
if not id or (model == arg_model and (weights or '') == arg_weights and dimension == arg_dimension) then
  return {redis.call('HGETALL', key_bank), 0, 0, redis.call('ZCARD', key_clusterver), {}, {}}
end
local meant = {id, arg_model, arg_weights, arg_dimension}
local found = redis.call('HMGET', key_next, 'id', 'model', 'weights', 'dimension')
local same = true
for i = 1, 4 do same = same and found[i] == meant[i] end
if not same then
  redis.call('UNLINK', key_next, key_nextvec)
  redis.call('HSET', key_next, 'id', meant[1], 'model', meant[2], 'weights', meant[3], 'dimension', meant[4],
    'upto', 0)
  redis.call('PEXPIRE', key_next, NEXT_LIFETIME)
end
local from = tonumber(redis.call('HGET', key_next, 'upto'))
local reported = redis.call('ZRANGEBYSCORE', key_clusterver, '(' .. from, '+inf', 'WITHSCORES', 'LIMIT', 0, arg_limit)
local slots, upto = {}, tonumber(version or 0)
for i = 1, #reported, 2 do slots[#slots + 1] = reported[i] end
if #slots == tonumber(arg_limit) then upto = tonumber(reported[#reported]) end
local texts = #slots > 0 and redis.call('HMGET', key_clustertext, unpack(slots)) or {}
return {redis.call('HGETALL', key_bank), from, upto, redis.call('ZCARD', key_clusterver), slots, texts}
