-- flags: allow-oom
-- Make the caller the only consumer of a stream for a while. This deletes the pending marker: later entries need a new
-- wake-up. A consumer that lingers holds the marker itself, and nobody publishes a wake-up while it does. Atomic: two
-- consumers must never both believe that they hold the stream.
-- keys: lease, fence_counter, wakeup
-- args:
--   lease_ms int
--   linger flag
-- returns: the fence, or nil if another consumer holds the lease.
local held = redis.call('EXISTS', key_lease) == 1
if not held or redis.call('GET', key_wakeup) ~= 'lingering' then
  redis.call('DEL', key_wakeup)
end
if held then
  -- After the server's clock stepped back, a lease would live that much longer. No lease is longer than its own length,
  -- so cut it down to that.
  redis.call('PEXPIRE', key_lease, arg_lease_ms, 'LT')
  return nil
end
local fence = redis.call('INCR', key_fence_counter)
redis.call('SET', key_lease, fence, 'PX', arg_lease_ms)
if arg_linger == '1' then
  redis.call('SET', key_wakeup, 'lingering', 'PX', arg_lease_ms)
end
return fence
