-- What a worker needs before it places signals or ranks: the bank, the contexts written since it last looked, and which
-- signals were applied before. Atomic, so that vectors belong to the version that stands beside them.
--
-- KEYS: 1 bank, 2 ctxvec, 3 ctxver, 4 ctxrecent, 5 sigseen, 6 sigseen-old
-- ARGV: 1 id of the bank as known or '', 2 version as known, 3 most contexts to return, 4 how many of the contexts
--       longest without a signal to name, then signal ids.
-- Returns {bank as a flat hash, version up to which the contexts are told, slots, vectors, oldest slots, seen 0/1 ...};
-- the contexts begin anew where the bank is not the one that was known.

local bank = redis.call('HGETALL', KEYS[1])
local id = redis.call('HGET', KEYS[1], 'id')
local known = tonumber(ARGV[2])
if id ~= ARGV[1] then known = 0 end

local told = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. known, '+inf', 'WITHSCORES', 'LIMIT', 0, tonumber(ARGV[3]))
local slots, version = {}, tonumber(redis.call('HGET', KEYS[1], 'version') or 0)
for i = 1, #told, 2 do slots[#slots + 1] = told[i] end
if #slots == tonumber(ARGV[3]) then version = tonumber(told[#told]) end
local vectors = #slots > 0 and redis.call('HMGET', KEYS[2], unpack(slots)) or {}

local oldest = {}
if tonumber(ARGV[4]) > 0 then oldest = redis.call('ZRANGE', KEYS[4], 0, tonumber(ARGV[4]) - 1) end

local seen, ids = {}, {}
for i = 5, #ARGV do ids[#ids + 1] = ARGV[i] end
if #ids > 0 then
  seen = redis.call('SMISMEMBER', KEYS[5], unpack(ids))
  for i, old in ipairs(redis.call('SMISMEMBER', KEYS[6], unpack(ids))) do
    if old == 1 then seen[i] = 1 end
  end
end
return {bank, version, slots, vectors, oldest, seen}
