-- flags: allow-oom
-- Claim evaluations whose timers are due. Each one's score moves by the lease and gets a fraction, which the score of
-- a commit never has: a fraction found here shows that an earlier claim never committed. Atomic: two workers must not
-- claim the same evaluation.
-- keys: /timers, /clock
-- args:
--   lease_ms int
--   limit int: most evaluations to claim
-- returns: {member, '1' if its last claim never committed, else '0', ...}.
-- @include steady
local now = onward(now_ms())
local found = redis.call('ZRANGE', key_timers, '-inf', now, 'BYSCORE', 'LIMIT', 0, arg_limit, 'WITHSCORES')
local claimed = {}
for index = 1, #found, 2 do
  local score = tonumber(found[index + 1])
  redis.call('ZADD', key_timers, string.format('%.1f', now + arg_lease_ms + 0.5), found[index])
  claimed[#claimed + 1] = found[index]
  claimed[#claimed + 1] = score % 1 == 0 and '0' or '1'
end
return claimed
