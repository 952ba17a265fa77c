-- Lengthens the lease of a drainer that attends to its stream, with the wake-up token that it holds; both or neither.
-- KEYS: lease, wake-up token.  ARGV: fence, lease in milliseconds.  Returns 1, or 0 if the lease is no longer ours.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
redis.call('SET', KEYS[2], 'attended', 'PX', ARGV[2])
return 1
