-- Makes the caller the only drainer of a stream for a while. The wake-up token goes with it: what arrives from now on
-- needs a new wake-up, unless the drainer attends to the stream: then it holds the token itself, so that nobody
-- publishes one. Atomic, so that two drainers never both believe to hold the stream.
-- KEYS: lease, fence counter, wake-up token.  ARGV: lease in milliseconds, '1' to attend.
-- Returns the fence, or nil if the lease is held.
local held = redis.call('EXISTS', KEYS[1]) == 1
if not held or redis.call('GET', KEYS[3]) ~= 'attended' then
  redis.call('DEL', KEYS[3])
end
if held then
  return nil
end
local fence = redis.call('INCR', KEYS[2])
redis.call('SET', KEYS[1], fence, 'PX', ARGV[1])
if ARGV[2] == '1' then
  redis.call('SET', KEYS[3], 'attended', 'PX', ARGV[1])
end
return fence
