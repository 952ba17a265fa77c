-- flags: allow-oom
-- Remove a command from the set of running ones unless it is running. Atomic: a worker may have leased it since the
-- caller found nothing about it, and nobody would notice if it were lost later.
-- keys: job, /running
-- args:
--   command_id text
-- returns: 1, or 0 if the command is running.
if redis.call('HGET', key_job, 'state') == 'running' then
  return 0
end
redis.call('ZREM', key_running, arg_command_id)
return 1
