-- flags: allow-oom
-- Renew the lease of a running command, even an expired one, unless it was declared lost. Atomic: a sweep must not
-- declare it lost between the check and the renewal.
-- keys: job, /running, /clock
-- args:
--   command_id str
--   token str: of the lease
--   lease_ms int
--   cwd text: the command's directory, for the record of a later loss; '' if it is stored or not known
-- returns: 1 | 0.
-- @include steady
-- constants: RUNNING_LIFETIME
local job = redis.call('HMGET', key_job, 'state', 'token')
if job[1] ~= 'running' or job[2] ~= arg_token then
  return 0
end
redis.call('ZADD', key_running, steady(now_ms()) + arg_lease_ms, arg_command_id)
redis.call('PEXPIRE', key_running, RUNNING_LIFETIME)
redis.call('HDEL', key_job, 'overdue') -- the grace of mark_job_lost starts over
if arg_cwd ~= '' then
  redis.call('HSET', key_job, 'cwd', arg_cwd)
end
return 1
