-- Takes up the shard's weekly decay, where it is due and nobody is at it. Atomic, so that of two beats one begins.
--
-- KEYS: 1 decay, 2 banks
-- ARGV: 1 token of the caller, 2 lease in milliseconds
-- Returns nil, or {bank, step, cursor, upto} where a pass of this week stands; '' and nothing done for a new one.
-- @include decay

local now = now_ms()
local week = string.format('%.0f', monday(now))
local pass = redis.call('HMGET', KEYS[1], 'done', 'owner', 'until', 'week', 'bank', 'step', 'cursor', 'upto')
if pass[1] == week or redis.call('EXISTS', KEYS[2]) == 0 then return nil end
if pass[2] ~= ARGV[1] and held(pass[2], pass[3], now) then return nil end
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'until', string.format('%.0f', now + ARGV[2]))
if pass[4] == week then return {pass[5], pass[6], pass[7], pass[8]} end
redis.call('HSET', KEYS[1], 'week', week, 'bank', '', 'step', '', 'cursor', '0', 'upto', '0', 'server', '',
  'scores', 0, 'written', 0)
return {'', '', '0', '0'}
