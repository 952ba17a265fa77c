-- Makes the caller the only drainer of a stream for a while. The wake-up token goes with it: what arrives from now on
-- needs a new wake-up. Atomic, so that two drainers never both believe to hold the stream.
-- KEYS: lease, fence counter, wake-up token.  ARGV: lease in milliseconds.  Returns the fence, or nil if it is held.
redis.call('DEL', KEYS[3])
if redis.call('EXISTS', KEYS[1]) == 1 then
  return nil
end
local fence = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], fence, 'PX', ARGV[1])
return fence
