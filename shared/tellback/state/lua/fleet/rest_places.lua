-- flags: allow-oom
-- End the frequent visits of places in which nothing waits, unless something was new lately. Atomic: a notification
-- between the check and the removal would be lost.
-- keys: /active, /noticed
-- args:
--   quiet_ms int: without a notification, for a team that is visited as a whole. A shard rests unless its team was
--     noticed since the visit was claimed, because whatever has a deadline there waits already
--   *places str
-- returns: how many of them rest now.
-- @include clock
local now, rested = now_ms(), 0
for _, place in ipairs(args_places) do
  local team = string.match(place, '^[^.]+')
  local at = tonumber(redis.call('ZSCORE', key_noticed, team) or 0)
  local claimed = tonumber(redis.call('ZSCORE', key_active, place) or 0)
  local since = team == place and now - arg_quiet_ms + 1 or claimed
  if at < since or at > now then
    rested = rested + redis.call('ZREM', key_active, place)
    if team == place then
      redis.call('ZREM', key_noticed, team)
    end
  end
end
return rested
