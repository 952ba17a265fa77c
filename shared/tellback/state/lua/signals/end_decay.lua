-- Mark one bank, or the shard's whole week, as decayed; the latter also releases the pass. Atomic: another process may
-- take over the pass between the check of the owner and the write.
-- keys: /decay
-- args:
--   token str: of the caller
--   lease_ms int
--   bank str: its name, or '' for the week
-- returns: nil if the caller no longer owns the pass, else 1.
-- @include decay

local week, now = owned_week()
if not week then return nil end
if arg_bank ~= '' then
  redis.call('HSET', key_decay, 'bank', arg_bank, 'step', 'done')
else
  redis.call('HSET', key_decay, 'done', string.format('%.0f', week), 'done_at', string.format('%.0f', now))
  redis.call('HDEL', key_decay, 'week', 'bank', 'step', 'cursor', 'upto', 'server', 'owner', 'until')
end
return 1
