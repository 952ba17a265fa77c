-- flags: allow-oom
-- Store the record of a command that a worker ran. If the command was declared lost meanwhile and has a record, this
-- one is kept as superseded. Atomic: each command ends in exactly one record, even if a sweep declares it lost at the
-- same moment.
-- keys: job, +done, +stop, records, +recorded, +hist, +superseded, /running, /cmdstats
-- args:
--   command_id str
--   token str: of the lease
--   record text: JSON
--   history text: its history entry, JSON without its first brace
--   outcome str: succeeded, failed, no_exit, refused or cancelled
-- returns: 'ok' | 'superseded'.
-- @include records
-- constants: SUPERSEDED_LIFETIME
check_records()
local job = redis.call('HMGET', key_job, 'state', 'token', 'finished')
if job[3] == arg_token then
  return 'ok' -- a retry of the call that stored the record
end
if job[1] and (job[1] ~= 'running' or job[2] ~= arg_token) then
  if not redis.call('LPOS', key_superseded, arg_record) then -- otherwise a retry of the call that stored it
    redis.call('RPUSH', key_superseded, arg_record)
    redis.call('LTRIM', key_superseded, -50, -1)
    redis.call('PEXPIRE', key_superseded, SUPERSEDED_LIFETIME)
    redis.pcall('HINCRBY', key_cmdstats, 'superseded', 1)
  end
  return 'superseded'
end
redis.call('ZREM', key_running, arg_command_id)
redis.call('DEL', key_stop)
redis.call('HSET', key_job, 'finished', arg_token)
store_record(arg_record, arg_history, arg_outcome)
return 'ok'
