-- The one record that a command ends in. Keys of the command's session, in one shard.
-- @include clock
-- @include history
local WEEK = 604800000
local KEPT = 200
local SPARED = 50

-- Drops what a session has too many of: of its oldest records the first success that retries nothing, so that failures,
-- and the retries that resolve them, outlive the others; where more than 50 are spared so, the oldest of all. A record
-- is compact JSON, so these texts cannot stand within a value: a quote in a value is escaped.
local function drop_surplus(records)
  while redis.call('LLEN', records) > KEPT do
    local found = redis.call('LINDEX', records, 0)
    for place = 0, SPARED do
      local record = redis.call('LINDEX', records, place)
      if string.find(record, '"exit_code":0,', 1, true) and string.find(record, '"parent_command_id":null,', 1, true) then
        found = record
        break
      end
    end
    redis.call('LREM', records, 1, found)
  end
end

-- What a record says of a command that ran: its exit code decides. The text is that of the record itself, as above.
local function outcome_of(record)
  if string.find(record, '"exit_code":0,', 1, true) then
    return 'succeeded'
  end
  return string.find(record, '"exit_code":null,', 1, true) and 'no_exit' or 'failed'
end

-- keys: {job=, records=, recorded=, done=, hist=, stats=}; `record` is JSON, `entry` the history's JSON without its first
-- brace, `outcome` what it counts as: succeeded, failed, no_exit, refused, cancelled, abandoned or lost.
local function store_record(keys, record, entry, outcome)
  redis.call('HINCRBY', keys.stats, outcome, 1)
  redis.call('HSET', keys.job, 'state', 'done')
  redis.call('HDEL', keys.job, 'spec', 'member')
  redis.call('PEXPIRE', keys.job, WEEK)
  redis.call('RPUSH', keys.records, record)
  drop_surplus(keys.records)
  redis.call('PEXPIRE', keys.records, WEEK)
  redis.call('INCR', keys.recorded)
  redis.call('PEXPIRE', keys.recorded, WEEK)
  redis.call('RPUSH', keys.done, record)
  redis.call('LTRIM', keys.done, -1, -1)
  redis.call('PEXPIRE', keys.done, 3600000)
  remember(keys.hist, '{"kind":"command","at":' .. now_ms() .. ',' .. entry)
end
