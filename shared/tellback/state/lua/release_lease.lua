-- Gives a stream back, unless the lease ran out and another drainer has it.
-- KEYS: lease.  ARGV: fence.  Returns 1 if it was ours.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
