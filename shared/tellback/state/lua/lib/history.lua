-- Append to a session's history in this shard: the newest 1,000 entries for 7 days.
-- constants: HIST_LIFETIME
local function append_history(key, ...)
  if select('#', ...) > 0 then
    local length = redis.pcall('RPUSH', key, ...)
    if type(length) == 'table' then return end -- another type: it must cost no answer, delivery or record
    if length > 1000 then
      redis.call('LTRIM', key, -1000, -1)
    end
    redis.call('PEXPIRE', key, HIST_LIFETIME)
  end
end
