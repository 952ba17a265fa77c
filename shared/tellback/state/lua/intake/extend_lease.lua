-- flags: allow-oom
-- Extend the lease of a consumer that lingers on its stream, together with its pending marker. Atomic: if another
-- consumer took over between the check and the writes, this one would extend a lease and mark wake-ups that are not
-- its own.
-- keys: lease, +wakeup
-- args:
--   fence int
--   lease_ms int
-- returns: 1, or 0 if the caller no longer holds the lease.
-- @include fence
if fenced() then
  return 0
end
redis.call('PEXPIRE', key_lease, arg_lease_ms)
redis.call('SET', key_wakeup, 'lingering', 'PX', arg_lease_ms)
return 1
