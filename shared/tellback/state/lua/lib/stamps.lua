-- Stamps of a bank's changes: a random one beside each version. After a lost tail, Redis gives out the same versions
-- again for other changes, so a version alone cannot tell a process that its copy has what the bank never kept.
-- A process that missed more changes than are kept loads everything again.
local STAMPS_CAP = 10000

-- Notes the stamp of the change that made this version; `key_info` is the hash that has the version.
local function add_stamp(key_info, key_stamps, version, stamp)
  redis.call('HSET', key_info, 'stamp', stamp)
  redis.call('ZADD', key_stamps, version, stamp)
  redis.call('ZREMRANGEBYRANK', key_stamps, 0, -STAMPS_CAP - 1)
end

-- True if a copy with this stamp ('' for none) is a part of the bank's history.
local function has_stamp(key_info, key_stamps, stamp)
  if stamp == '' then return not redis.call('HGET', key_info, 'stamp') end
  return redis.call('ZSCORE', key_stamps, stamp) and true
end
