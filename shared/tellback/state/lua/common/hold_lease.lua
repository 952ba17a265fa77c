-- flags: allow-oom
-- Give this process a lease that is free, or renew its own. Atomic: of two processes that ask at once, one gets it.
-- keys: lease
-- args:
--   token str: of the process
--   ms int: how long it lasts
-- returns: 1 if this process has it now, else 0.
local holder = redis.call('GET', key_lease)
if holder and holder ~= arg_token then
  return 0
end
redis.call('SET', key_lease, arg_token, 'PX', arg_ms)
return 1
