-- flags: allow-oom
-- Put the replies of recalls into their mailboxes and acknowledge the requests. Atomic: a request leaves the intake
-- exactly when its reply is there.
-- keys: intake, +lease, *mailboxes
-- args:
--   fence int
--   entries text: JSON array of the ids that leave the stream
--   *replies text: JSON, one for each mailbox
-- returns: 'ok' | 'fenced'.
-- @include intake
-- constants: REPLY_LIFETIME

if fenced() then return 'fenced' end
ack()
for i, mailbox in ipairs(keys_mailboxes) do
  redis.call('DEL', mailbox)
  redis.call('RPUSH', mailbox, args_replies[i])
  redis.call('PEXPIRE', mailbox, REPLY_LIFETIME)
end
return 'ok'
