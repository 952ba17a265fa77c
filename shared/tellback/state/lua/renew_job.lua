-- Extends the lease of a running command; refused once it was declared lost.
-- KEYS: 1 job, 2 running
-- ARGV: 1 command id, 2 token, 3 lease in ms
-- Returns 1 | 0
-- @include clock
local job = redis.call('HMGET', KEYS[1], 'state', 'token')
if job[1] ~= 'running' or job[2] ~= ARGV[2] then
  return 0
end
redis.call('ZADD', KEYS[2], now_ms() + ARGV[3], ARGV[1])
redis.call('PEXPIRE', KEYS[2], 604800000)
return 1
