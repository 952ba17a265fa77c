-- The audit log of a shard: who did what to which thing and why, the newest 10,000 acts.
-- @include clock
-- constants: AUDIT_LIFETIME

redis.call('LLEN', key_audit) -- first: if it has another type, nothing is done that it would not name

-- `entry` is the entry's JSON without its first brace.
local function append_audit(key, entry)
  redis.call('RPUSH', key, '{"at":' .. now_ms() .. ',' .. entry)
  redis.call('LTRIM', key, -10000, -1)
  redis.call('PEXPIRE', key, AUDIT_LIFETIME)
end
