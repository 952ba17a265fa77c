-- Claims evaluations whose time has come, for as long as a look may take: their score moves by the lease and gets a
-- fraction, which a commit's has not. A fraction that is found tells that an earlier look never committed.
-- KEYS: due set. ARGV: lease in milliseconds, how many.
-- Returns members and '1' or '0' in turn: whether the look before died.
-- @include clock
local now = now_ms()
local found = redis.call('ZRANGE', KEYS[1], '-inf', now, 'BYSCORE', 'LIMIT', 0, ARGV[2], 'WITHSCORES')
local claimed = {}
for index = 1, #found, 2 do
  local score = tonumber(found[index + 1])
  redis.call('ZADD', KEYS[1], string.format('%.1f', now + ARGV[1] + 0.5), found[index])
  claimed[#claimed + 1] = found[index]
  claimed[#claimed + 1] = score % 1 == 0 and '0' or '1'
end
return claimed
