-- flags: allow-oom
-- Move one entry from its intake stream to the dead letters. Atomic: a crash between the two would lose the entry or
-- keep it twice.
-- keys: intake, +lease, /dead
-- args:
--   fence int
--   entries text: JSON array of the ids that leave the stream
--   family str
--   reason str
--   raw bytes: of the entry, possibly truncated
--   size int: of the whole entry, in bytes
--   memory int: that the shard's dead letters may use, in bytes
-- returns: 'ok' | 'fenced'.
-- @include intake
-- constants: DEAD_LIFETIME
if fenced() then
  return 'fenced'
end
expect_type('stream', key_dead)
if not ack() then -- it was moved before, and the reply was lost
  return 'ok'
end
redis.call('XADD', key_dead, 'MAXLEN', '~', 10000, '*', 'family', arg_family, 'reason', arg_reason,
  'raw', arg_raw, 'bytes', arg_size)
redis.call('XTRIM', key_dead, 'MINID', '~', string.format('%.0f', now_ms() - DEAD_LIFETIME))
redis.call('PEXPIRE', key_dead, DEAD_LIFETIME)
for _ = 1, 100 do -- bounded, since other calls wait; the newest letter stays, whatever its size
  local length = redis.call('XLEN', key_dead)
  if length < 2 or redis.call('MEMORY', 'USAGE', key_dead, 'SAMPLES', 0) <= tonumber(arg_memory) then
    break
  end
  redis.call('XTRIM', key_dead, 'MAXLEN', length - 1)
end
return 'ok'
