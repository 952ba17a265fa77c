-- Gives a stream back, with the wake-up token of one who attended to it, unless the lease ran out and another drainer
-- has it.
-- KEYS: lease, wake-up token.  ARGV: fence.  Returns 1 if it was ours.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if redis.call('GET', KEYS[2]) == 'attended' then
  redis.call('DEL', KEYS[2])
end
return redis.call('DEL', KEYS[1])
