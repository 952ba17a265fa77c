-- Set the cosine from which two queries of a bank share a cluster; a bank that does not exist begins with it. Atomic,
-- and with a version of its own: no worker can place a query by the former threshold afterwards.
-- keys: bank, +clusterstamps, /banks
-- args:
--   bank_name str
--   bank_id str: of a bank that begins
--   new_stamp str
--   model str
--   dimension int
--   threshold str
--   weights str: digest of the model's files, or ''
-- returns: {'begun'} | {'set', the former threshold} | {'other', model, dimension and weights of the bank}.
-- @include clock
-- @include stamps

local bank = redis.call('HMGET', key_bank, 'id', 'model', 'dimension', 'threshold', 'weights')
if not bank[1] then
  redis.call('HSET', key_bank, 'id', arg_bank_id, 'model', arg_model, 'dimension', arg_dimension,
    'threshold', arg_threshold, 'weights', arg_weights, 'created_at', now_ms(), 'version', 0)
  add_stamp(key_bank, key_clusterstamps, 0, arg_new_stamp)
  redis.call('ZADD', key_banks, now_ms(), arg_bank_name)
  return {'begun'}
end
-- The same files are the same model under any name; if either side has no digest, compare the names.
local theirs, same = bank[5] or '', bank[2] == arg_model
if theirs ~= '' and arg_weights ~= '' then same = theirs == arg_weights end
if not same or tonumber(bank[3]) ~= tonumber(arg_dimension) then
  return {'other', bank[2], bank[3], theirs}
end
if tonumber(bank[4]) ~= tonumber(arg_threshold) then
  redis.call('HSET', key_bank, 'threshold', arg_threshold)
  add_stamp(key_bank, key_clusterstamps, redis.call('HINCRBY', key_bank, 'version', 1), arg_new_stamp)
end
return {'set', bank[4]}
