-- flags: allow-oom
-- End the frequent visits of a team in which nothing waits, unless it was noticed lately. Atomic: a notification
-- between the check and the removal would be lost.
-- keys: active, noticed
-- args:
--   team str
--   quiet_ms int: without a notification
-- returns: 1 if it rests now, else 0.
-- @include clock
local at = tonumber(redis.call('ZSCORE', key_noticed, arg_team) or 0)
local now = now_ms()
if at <= now and now - at < tonumber(arg_quiet_ms) then
  return 0
end
redis.call('ZREM', key_noticed, arg_team)
return redis.call('ZREM', key_active, arg_team)
