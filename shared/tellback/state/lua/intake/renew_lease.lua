-- flags: allow-oom
-- Renew the lease of a consumer that waits for something, such as a model. Atomic: if the lease passed to another
-- consumer after the check, the caller would extend that one's.
-- keys: lease
-- args:
--   fence int
--   lease_ms int
-- returns: 1, or 0 if the caller no longer holds the lease.
-- @include fence
if fenced() then
  return 0
end
return redis.call('PEXPIRE', key_lease, arg_lease_ms)
