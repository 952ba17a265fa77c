-- The test of scripts whether somebody holds a lease or a pending marker.

-- True if the key lives. With more time left than its own length, in milliseconds, it has no holder: the server's clock
-- was set back.
local function is_held(key, length)
  local left = redis.call('PTTL', key)
  return left >= 0 and left <= length
end
