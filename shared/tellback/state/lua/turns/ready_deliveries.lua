-- flags: allow-oom
-- List the conversations of a channel whose first delivery may be taken now, longest waiting first. Times further
-- ahead than the longest delay were set while a forward step of the clock counted as time; they are moved to that
-- longest delay. Atomic: a delivery that is claimed or settled meanwhile must not get an outdated time.
-- keys: out, /clock
-- args:
--   limit int: most conversations
--   longest_ms int: longest delay
-- returns: conversation, time, conversation, ...; nil if the clock must be observed first.
-- @include steady
local clock, last = steady(now_ms())
if unobserved(clock, last) then
  return false
end
local latest = clock + arg_longest_ms
local after = '(' .. string.format('%.0f', latest)
for _, name in ipairs(redis.call('ZRANGE', key_out, after, '+inf', 'BYSCORE', 'LIMIT', 0, 100)) do
  redis.call('ZADD', key_out, latest, name)
end
return redis.call('ZRANGE', key_out, '-inf', clock, 'BYSCORE', 'LIMIT', 0, arg_limit, 'WITHSCORES')
