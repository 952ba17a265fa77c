-- Decay some of a bank's global scores and store where to continue. Atomic: no signal can change a score between its
-- read and its write, and the stored cursor matches what was written.
-- keys: bank, +factscore, /decay
-- args:
--   token str: of the caller
--   lease_ms int
--   bank_name str
--   about int: how many scores to decay
-- returns: nil if the caller no longer owns the pass, '1' if scores are left, '0' if all are done. After '0' the
--   clusters up to the bank's version follow.
-- @include decay

local week, now = owned_week()
if not week then return nil end
local server = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local pass = redis.call('HMGET', key_decay, 'bank', 'step', 'cursor', 'server')
-- An HSCAN cursor is valid only in the server process that returned it: another one seeds its hashes differently.
local cursor = '0'
if pass[1] == arg_bank_name and pass[2] == 'facts' and pass[4] == server then cursor = pass[3] end

local scanned = redis.call('HSCAN', key_factscore, cursor, 'COUNT', arg_about)
count(#scanned[2] / 2, decay(key_factscore, scanned[2], week, now))
if scanned[1] == '0' then
  redis.call('HSET', key_decay, 'bank', arg_bank_name, 'step', 'clusters', 'cursor', '0',
    'upto', redis.call('HGET', key_bank, 'version') or '0')
else
  redis.call('HSET', key_decay, 'bank', arg_bank_name, 'step', 'facts', 'cursor', scanned[1], 'server', server)
end
return scanned[1] == '0' and '0' or '1'
