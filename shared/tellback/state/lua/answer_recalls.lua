-- Puts the replies of recalls into their mailboxes. One script, so that a request leaves the intake with its reply.
--
-- KEYS: 1 intake stream, 2 lease, then a mailbox for each reply. ARGV: 1 fence, 2 entry ids, then the replies.
-- Returns 'ok' | 'fenced'.
-- @include intake

if fenced() then return 'fenced' end
settle()
for i = 3, #KEYS do
  redis.call('DEL', KEYS[i])
  redis.call('RPUSH', KEYS[i], ARGV[i])
  redis.call('PEXPIRE', KEYS[i], 60000)
end
return 'ok'
