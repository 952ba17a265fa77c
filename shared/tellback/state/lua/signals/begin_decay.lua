-- Claim the shard's weekly decay if it is due and nobody works at it. Atomic: of two beats only one begins.
-- keys: /decay, /banks
-- args:
--   token str: of the caller
--   lease_ms int
-- returns: nil if there is nothing to do or somebody else holds the pass, or {bank, step, cursor, upto} to resume from;
--   the first two are '' for a new pass.
-- @include decay

local now = now_ms()
local week = string.format('%.0f', monday(now))
local pass = redis.call('HMGET', key_decay, 'done', 'owner', 'until', 'week', 'bank', 'step', 'cursor', 'upto')
if pass[1] == week or redis.call('EXISTS', key_banks) == 0 then return nil end
if pass[2] ~= arg_token and held(pass[2], pass[3], now) then return nil end
redis.call('HSET', key_decay, 'owner', arg_token, 'until', string.format('%.0f', now + arg_lease_ms))
if pass[4] == week then return {pass[5], pass[6], pass[7], pass[8]} end
redis.call('HSET', key_decay, 'week', week, 'bank', '', 'step', '', 'cursor', '0', 'upto', '0', 'server', '',
  'scores', 0, 'written', 0)
return {'', '', '0', '0'}
