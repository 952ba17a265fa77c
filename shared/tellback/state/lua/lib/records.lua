-- The one record in which a command ends. Scripts declare the keys job, done, records, recorded, hist and cmdstats.
-- A script that may store one calls `check_records` before it changes anything.
-- @include clock
-- @include history
-- constants: JOB_LIFETIME, RECORDS_LIFETIME, RECORDED_LIFETIME, DONE_LIFETIME
local KEPT = 200
local SPARED = 50

-- Evicts a session's surplus record: first, among the oldest, a success that retries nothing. Failures, and the
-- retries that resolve them, thus outlive the others; if the oldest 51 records are all such, the oldest is evicted.
local function drop_surplus()
  -- A host may write its team's keys itself and make this list long: evicting one by one would hold up every client.
  redis.call('LTRIM', key_records, -(KEPT + 1), -1)
  if redis.call('LLEN', key_records) <= KEPT then return end
  local found = redis.call('LINDEX', key_records, 0)
  for place = 0, SPARED do
    local record = redis.call('LINDEX', key_records, place)
    local is_read, known = pcall(cjson.decode, record) -- a newer release may have written it
    if is_read and type(known) == 'table' and known.exit_code == 0 and known.parent_command_id == cjson.null then
      found = record
      break
    end
  end
  redis.call('LREM', key_records, 1, found)
end

-- Fails if the session's records have another type, before a part of the script has had its effect.
local function check_records()
  redis.call('LLEN', key_records)
end

-- `record` is JSON, `entry` the history entry's JSON without its first brace, `outcome` its counter: succeeded, failed,
-- no_exit, refused, cancelled, abandoned or lost.
local function store_record(record, entry, outcome)
  redis.pcall('HINCRBY', key_cmdstats, outcome, 1) -- a key of another type must cost no record
  redis.call('HSET', key_job, 'state', 'done')
  redis.call('HDEL', key_job, 'spec', 'member')
  redis.call('PEXPIRE', key_job, JOB_LIFETIME)
  redis.call('RPUSH', key_records, record)
  drop_surplus()
  redis.call('PEXPIRE', key_records, RECORDS_LIFETIME)
  redis.pcall('INCR', key_recorded) -- no number: the gate cannot read it and refuses, but the record is stored
  redis.call('PEXPIRE', key_recorded, RECORDED_LIFETIME)
  redis.call('DEL', key_done) -- it may be of another type
  redis.call('RPUSH', key_done, record)
  redis.call('PEXPIRE', key_done, DONE_LIFETIME)
  append_history(key_hist, '{"kind":"command","at":' .. now_ms() .. ',' .. entry)
end
