-- Load what a worker needs before it matches queries of a bank: the bank, the clusters written since the worker's last
-- load, and which signals were applied before. Atomic: the vectors belong to the version that is returned with them.
-- keys: bank, +clustervec, +clusterver, +clusterstamps, +clusterrecent, +sigseen, +sigseen_old
-- args:
--   bank_id str: as known, or ''
--   version int: as known
--   stamp str: as known, or ''
--   limit int: most clusters to return
--   oldest int: how many of the clusters longest without a signal to name
--   *signal_ids str
-- returns: {bank as a flat hash, 1 if what is known must be dropped first, else 0, version up to which the clusters are
--   complete, slots, vectors, oldest slots, 0 or 1 for each signal id}.
-- @include stamps

local bank = redis.call('HGETALL', key_bank)
local id = redis.call('HGET', key_bank, 'id') or ''
local is_reset = (id ~= arg_bank_id or not has_stamp(key_bank, key_clusterstamps, arg_stamp)) and 1 or 0
local known = is_reset == 1 and 0 or tonumber(arg_version)

local reported = redis.call('ZRANGEBYSCORE', key_clusterver, '(' .. known, '+inf', 'WITHSCORES', 'LIMIT', 0, arg_limit)
local slots, version = {}, tonumber(redis.call('HGET', key_bank, 'version') or 0)
for i = 1, #reported, 2 do slots[#slots + 1] = reported[i] end
if #slots == tonumber(arg_limit) then version = tonumber(reported[#reported]) end
local vectors = #slots > 0 and redis.call('HMGET', key_clustervec, unpack(slots)) or {}

local oldest = {}
if tonumber(arg_oldest) > 0 then oldest = redis.call('ZRANGE', key_clusterrecent, 0, tonumber(arg_oldest) - 1) end

local seen, ids = {}, args_signal_ids
if #ids > 0 then
  seen = redis.call('SMISMEMBER', key_sigseen, unpack(ids))
  for i, old in ipairs(redis.call('SMISMEMBER', key_sigseen_old, unpack(ids))) do
    if old == 1 then seen[i] = 1 end
  end
end
return {bank, is_reset, version, slots, vectors, oldest, seen}
