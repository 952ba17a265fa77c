-- Lengthens the lease of a drainer that waits for something, such as a model. Atomic, so that a lease that has passed on
-- is never the one lengthened.
-- KEYS: lease.  ARGV: fence, lease in milliseconds.  Returns 1, or 0 if the lease is no longer ours.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])
