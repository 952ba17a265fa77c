-- Says that a bank is done, or the whole week of the shard; the latter gives the pass back.
--
-- KEYS: 1 decay
-- ARGV: 1 token, 2 lease in milliseconds, 3 name of the bank, or '' for the week
-- Returns nil where the pass is no longer the caller's, else 1.
-- @include decay

local week, now = working()
if not week then return nil end
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], 'bank', ARGV[3], 'step', 'done')
else
  redis.call('HSET', KEYS[1], 'done', string.format('%.0f', week), 'done_at', string.format('%.0f', now))
  redis.call('HDEL', KEYS[1], 'week', 'bank', 'step', 'cursor', 'upto', 'server', 'owner', 'until')
end
return 1
