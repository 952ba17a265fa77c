-- flags: allow-oom
-- Make the caller the only consumer of a stream for a while. This deletes the pending marker: later entries need a new
-- wake-up. A consumer that lingers holds the marker itself, and nobody publishes a wake-up while it does. Atomic: two
-- consumers must never both believe that they hold the stream. It reads in the same round trip, because most consumers
-- are woken for a few entries.
-- keys: intake, +lease, +fence, +wakeup
-- args:
--   lease_ms int
--   linger flag
--   max_entries int: 0 reads nothing
--   max_bytes int
-- returns: nil if another consumer holds the lease, or there is no stream and the caller does not linger; else
--   [fence, 1 if a dead consumer left entries, what next_entries returns]. While it left some, no other is read: they
--   come first.
-- @include reading
local length = redis.call('XLEN', key_intake) -- first: if it has another type, nobody holds a lease of it
local held = redis.call('EXISTS', key_lease) == 1
if not held or redis.call('GET', key_wakeup) ~= 'lingering' then
  redis.call('DEL', key_wakeup)
end
if held then
  -- After the server's clock stepped back, a lease would live that much longer. No lease is longer than its own length,
  -- so shorten it to that.
  redis.call('PEXPIRE', key_lease, arg_lease_ms, 'LT')
  return nil
end
if arg_linger ~= '1' and arg_max_entries ~= '0' and redis.call('EXISTS', key_intake) == 0 then
  return nil -- a wake-up that came after its team was removed must leave no key
end
-- The microseconds make it unique: after a failover that lost the counter's last steps, a consumer of before it would
-- otherwise have the same fence as the next one.
local leases = redis.pcall('INCR', key_fence)
if type(leases) == 'table' then -- of another type, or no number: nobody could consume the stream
  redis.call('DEL', key_fence)
  leases = redis.call('INCR', key_fence)
end
local fence = leases * 1000000 + redis.call('TIME')[2]
redis.call('SET', key_lease, string.format('%.0f', fence), 'PX', arg_lease_ms)
if arg_linger == '1' then
  redis.call('SET', key_wakeup, 'lingering', 'PX', arg_lease_ms)
end
if arg_max_entries == '0' or length == 0 then
  return {fence, 0, {}}
end
local pending = redis.pcall('XPENDING', key_intake, 'consumer')
if not pending.err and (pending[1] > 0 or #redis.call('XRANGE', key_intake, '-', last_delivered(), 'COUNT', 1) > 0) then
  return {fence, 1, {}}
end -- an error: there is no group, which the next read creates
return {fence, 0, next_entries()}
