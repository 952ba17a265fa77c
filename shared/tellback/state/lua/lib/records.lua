-- The one record that a command ends in. Keys of the command's session, in one shard.
-- @include clock
-- @include history
local WEEK = 604800000

-- keys: {job=, records=, recorded=, done=, hist=}; `record` is JSON, `entry` the history's JSON without its first brace.
local function store_record(keys, record, entry)
  redis.call('HSET', keys.job, 'state', 'done')
  redis.call('HDEL', keys.job, 'spec', 'member')
  redis.call('PEXPIRE', keys.job, WEEK)
  redis.call('RPUSH', keys.records, record)
  redis.call('LTRIM', keys.records, -200, -1)
  redis.call('PEXPIRE', keys.records, WEEK)
  redis.call('INCR', keys.recorded)
  redis.call('PEXPIRE', keys.recorded, WEEK)
  redis.call('RPUSH', keys.done, record)
  redis.call('LTRIM', keys.done, -1, -1)
  redis.call('PEXPIRE', keys.done, 3600000)
  remember(keys.hist, '{"kind":"command","at":' .. now_ms() .. ',' .. entry)
end
