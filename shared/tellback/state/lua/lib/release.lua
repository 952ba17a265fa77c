-- The release of a stream. Scripts declare the keys intake, lease and wakeup.
-- @include delivered

local HIGHEST = '18446744073709551615-18446744073709551615'

-- Ends the lease, and the pending marker if its consumer lingered. An empty stream whose last id is the highest would
-- take no entry any more: without it, the next one makes a new stream.
local function release()
  if redis.call('GET', key_wakeup) == 'lingering' then
    redis.call('DEL', key_wakeup)
  end
  if redis.pcall('XLEN', key_intake) == 0 and last_delivered() == HIGHEST then
    redis.call('DEL', key_intake)
  end
  return redis.call('DEL', key_lease)
end
