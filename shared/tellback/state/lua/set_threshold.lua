-- Sets from which cosine on queries of a bank share a context; a bank that has not begun begins with it. Atomic, and a
-- version of its own, so that no worker places with the former threshold afterwards.
--
-- KEYS: 1 bank, 2 banks
-- ARGV: 1 bank's name, 2 id for one that begins, 3 model, 4 dimension, 5 threshold, 6 what tells the model's files or ''
-- Returns {'begun'} | {'set', the former threshold} | {'other', model, dimension and weights that the bank
-- was begun with}.
-- @include clock

local bank = redis.call('HMGET', KEYS[1], 'id', 'model', 'dimension', 'threshold', 'weights')
if not bank[1] then
  redis.call('HSET', KEYS[1], 'id', ARGV[2], 'model', ARGV[3], 'dimension', ARGV[4], 'threshold', ARGV[5],
    'weights', ARGV[6], 'created_at', now_ms(), 'version', 0)
  redis.call('ZADD', KEYS[2], now_ms(), ARGV[1])
  return {'begun'}
end
local theirs = bank[5] or ''
local files_differ = theirs ~= '' and ARGV[6] ~= '' and theirs ~= ARGV[6]
if bank[2] ~= ARGV[3] or tonumber(bank[3]) ~= tonumber(ARGV[4]) or files_differ then
  return {'other', bank[2], bank[3], theirs}
end
if tonumber(bank[4]) ~= tonumber(ARGV[5]) then
  redis.call('HSET', KEYS[1], 'threshold', ARGV[5])
  redis.call('HINCRBY', KEYS[1], 'version', 1)
end
return {'set', bank[4]}
