-- Moves one entry from the intake to the dead letters, so that it is always in exactly one of them.
-- KEYS: intake stream, lease, dead letters.  ARGV: fence, entry ids (JSON), family, reason, raw, bytes of the whole.
-- Returns 'ok' or 'fenced'.
-- @include intake
if fenced() then
  return 'fenced'
end
settle()
redis.call('XADD', KEYS[3], 'MAXLEN', '~', 10000, '*', 'family', ARGV[3], 'reason', ARGV[4], 'raw', ARGV[5], 'bytes', ARGV[6])
redis.call('XTRIM', KEYS[3], 'MINID', '~', string.format('%.0f', now_ms() - 2592000000))
redis.call('PEXPIRE', KEYS[3], 2592000000)
return 'ok'
