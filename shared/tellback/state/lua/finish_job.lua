-- Stores the record of whoever ran the command. Who comes too late, because the command was declared lost and has a
-- record, is kept as superseded: each command ends in exactly one record.
-- KEYS: 1 job, 2 running, 3 records, 4 recorded, 5 done, 6 hist, 7 superseded, 8 stop, 9 counters
-- ARGV: 1 command id, 2 token, 3 record, 4 history entry
-- Returns 'ok' | 'superseded'
-- @include records
local keys = { job = KEYS[1], records = KEYS[3], recorded = KEYS[4], done = KEYS[5], hist = KEYS[6], stats = KEYS[9] }
local job = redis.call('HMGET', keys.job, 'state', 'token', 'finished')
if job[3] == ARGV[2] then
  return 'ok' -- the same call, tried again
end
if job[1] and (job[1] ~= 'running' or job[2] ~= ARGV[2]) then
  redis.call('RPUSH', KEYS[7], ARGV[3])
  redis.call('LTRIM', KEYS[7], -50, -1)
  redis.call('PEXPIRE', KEYS[7], WEEK)
  redis.call('HINCRBY', keys.stats, 'superseded', 1)
  return 'superseded'
end
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('DEL', KEYS[8])
redis.call('HSET', keys.job, 'finished', ARGV[2])
store_record(keys, ARGV[3], ARGV[4], outcome_of(ARGV[3]))
return 'ok'
