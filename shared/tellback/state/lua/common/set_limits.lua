-- flags: allow-oom
-- Replace the limits of a team in one shard. Atomic: no call meets the shard without its limits, no act goes without
-- its entry in the audit log, and of two operators who change other limits at once neither undoes the other's.
-- keys: limits, audit
-- args:
--   first flag: the shard is the team's first, where the limits as a whole and the audit log stand
--   before text: those that the caller read there, as JSON; '' for none
--   entry text: the audit entry, JSON without its first brace
--   *fields text: names and values, that of all limits as JSON first
-- returns: 1, or 0 if the first shard has other limits than `before`; then nothing is changed.
-- @include audit
if arg_first == '1' then
  local stored = redis.call('HGET', key_limits, 'team') or ''
  if stored ~= arg_before then
    -- A call that is repeated, since its reply was lost, has had its effect.
    local newest = redis.call('LINDEX', key_audit, -1) or ''
    return stored == args_fields[2] and string.sub(newest, -#arg_entry) == arg_entry and 1 or 0
  end
  append_audit(key_audit, arg_entry)
end
redis.call('DEL', key_limits)
redis.call('HSET', key_limits, unpack(args_fields))
return 1
