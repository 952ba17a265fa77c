-- Forgets one fact of a bank: its text and its vector. What signals made of it stays. Atomic, so that an event counts
-- once and the entry leaves the intake with its effect.
--
-- KEYS: as `memories` says. ARGV: 1 fence, 2 entry ids, 3 event id, 4 fact id, 5 bank.
-- Returns 'ok' | 'fenced'.
-- @include memories

if fenced() then return 'fenced' end
settle()
if applied_before(ARGV[3]) then return 'ok' end
drop_fact(redis.call('HGET', KEYS[3], 'kind'), ARGV[4])
if redis.call('EXISTS', KEYS[4]) == 0 then  -- the next begins anew
  redis.call('DEL', KEYS[3], KEYS[7])
  redis.call('ZREM', KEYS[13], ARGV[5])
end
return 'ok'
