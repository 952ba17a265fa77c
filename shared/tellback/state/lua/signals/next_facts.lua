-- Return the stored facts of a bank that its next model has not embedded yet: those stored since the last batch. The
-- first call for these facts and this model starts from the beginning and drops what was embedded for
-- another model. Facts that already have the model have none. Atomic, as next_clusters.
-- keys: factinfo, +factver, +facttext, +factnext, +factnextvec, +factnextset
-- args:
--   model str
--   weights str
--   dimension int
--   limit int: most facts to return
-- returns: {factinfo as a flat hash, version from which, version up to which these facts are complete, number of facts
--   of the bank, facts with their versions, records}.
-- constants: FACTNEXT_LIFETIME

local factinfo = redis.call('HMGET', key_factinfo, 'id', 'version', 'model', 'weights', 'dimension')
local has_model = factinfo[3] == arg_model and (factinfo[4] or '') == arg_weights and factinfo[5] == arg_dimension
if not factinfo[1] or has_model then
  return {redis.call('HGETALL', key_factinfo), 0, 0, redis.call('ZCARD', key_factver), {}, {}}
end
local meant = {factinfo[1], arg_model, arg_weights, arg_dimension}
local found = redis.call('HMGET', key_factnext, 'id', 'model', 'weights', 'dimension')
local same = true
for i = 1, 4 do same = same and found[i] == meant[i] end
if not same then
  redis.call('UNLINK', key_factnext, key_factnextvec, key_factnextset)
  redis.call('HSET', key_factnext, 'id', meant[1], 'model', meant[2], 'weights', meant[3], 'dimension', meant[4],
    'upto', 0)
  redis.call('PEXPIRE', key_factnext, FACTNEXT_LIFETIME)
end
local from = tonumber(redis.call('HGET', key_factnext, 'upto'))
local reported = redis.call('ZRANGEBYSCORE', key_factver, '(' .. from, '+inf', 'WITHSCORES', 'LIMIT', 0, arg_limit)
local names, upto = {}, tonumber(factinfo[2])
for i = 1, #reported, 2 do names[#names + 1] = reported[i] end
if #names == tonumber(arg_limit) then upto = tonumber(reported[#reported]) end
local records = #names > 0 and redis.call('HMGET', key_facttext, unpack(names)) or {}
return {redis.call('HGETALL', key_factinfo), from, upto, redis.call('ZCARD', key_factver), reported, records}
