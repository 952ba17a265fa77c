-- Moves one entry from the intake to the dead letters, so that it is always in exactly one of them.
-- KEYS: intake stream, lease, dead letters.  ARGV: fence, entry ids (JSON), family, reason, raw, bytes of the whole,
--       memory that the letters of the shard may take (bytes).
-- Returns 'ok' or 'fenced'.
-- @include intake
if fenced() then
  return 'fenced'
end
settle()
redis.call('XADD', KEYS[3], 'MAXLEN', '~', 10000, '*', 'family', ARGV[3], 'reason', ARGV[4], 'raw', ARGV[5], 'bytes', ARGV[6])
redis.call('XTRIM', KEYS[3], 'MINID', '~', string.format('%.0f', now_ms() - 2592000000))
redis.call('PEXPIRE', KEYS[3], 2592000000)
for _ = 1, 100 do -- oldest first, a bounded number at a time; the newest stays, whatever its size
  local length = redis.call('XLEN', KEYS[3])
  if length < 2 or redis.call('MEMORY', 'USAGE', KEYS[3], 'SAMPLES', 0) <= tonumber(ARGV[7]) then
    break
  end
  redis.call('XTRIM', KEYS[3], 'MAXLEN', length - 1)
end
return 'ok'
