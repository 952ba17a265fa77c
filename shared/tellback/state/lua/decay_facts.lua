-- Decays some of a bank's global scores, and says where to go on. Atomic, so that no signal comes between reading a
-- score and writing it, and the cursor stands for what is written.
--
-- KEYS: 1 decay, 2 facts, 3 bank
-- ARGV: 1 token, 2 lease in milliseconds, 3 name of the bank, 4 how many scores, about
-- Returns nil where the pass is no longer the caller's; '0' where all are done; else '1'. Then the contexts that stand
-- up to the bank's version are to be done.
-- @include decay

local week, now = working()
if not week then return nil end
local server = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
local pass = redis.call('HMGET', KEYS[1], 'bank', 'step', 'cursor', 'server')
-- A cursor of HSCAN means nothing to another server, or to this one after a restart: hashes are seeded anew.
local cursor = '0'
if pass[1] == ARGV[3] and pass[2] == 'facts' and pass[4] == server then cursor = pass[3] end

local scanned = redis.call('HSCAN', KEYS[2], cursor, 'COUNT', ARGV[4])
count(#scanned[2] / 2, decay(KEYS[2], scanned[2], week, now))
if scanned[1] == '0' then
  redis.call('HSET', KEYS[1], 'bank', ARGV[3], 'step', 'contexts', 'cursor', '0',
    'upto', redis.call('HGET', KEYS[3], 'version') or '0')
else
  redis.call('HSET', KEYS[1], 'bank', ARGV[3], 'step', 'facts', 'cursor', scanned[1], 'server', server)
end
return scanned[1] == '0' and '0' or '1'
