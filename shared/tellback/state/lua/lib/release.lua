-- The release of a stream. Scripts declare the keys lease and wakeup.

-- Ends the lease, and the pending marker if its consumer lingered.
local function release()
  if redis.call('GET', key_wakeup) == 'lingering' then
    redis.call('DEL', key_wakeup)
  end
  return redis.call('DEL', key_lease)
end
