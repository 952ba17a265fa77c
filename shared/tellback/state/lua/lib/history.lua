-- A session's history in this shard: the newest 1,000 entries for 7 days.
local function remember(key, ...)
  if select('#', ...) > 0 then
    redis.call('RPUSH', key, ...)
    redis.call('LTRIM', key, -1000, -1)
    redis.call('PEXPIRE', key, 604800000)
  end
end
