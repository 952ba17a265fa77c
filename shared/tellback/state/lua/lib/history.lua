-- Append to a session's history in this shard: the newest 1,000 entries for 7 days.
-- constants: HIST_LIFETIME
local function append_history(key, ...)
  if select('#', ...) > 0 then
    redis.call('RPUSH', key, ...)
    redis.call('LTRIM', key, -1000, -1)
    redis.call('PEXPIRE', key, HIST_LIFETIME)
  end
end
