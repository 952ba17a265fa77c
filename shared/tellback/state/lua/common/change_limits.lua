-- flags: allow-oom
-- Replace the limits of a team in its first shard, where they stand as a whole beside the audit log. Atomic: no call
-- meets the shard without its limits, no act goes without its entry in the audit log, and of two operators who change
-- other limits at once neither undoes the other's.
-- keys: operation, /limits, /audit
-- args:
--   before text: those that the caller read there, as JSON; '' for none
--   entry text: the audit entry, JSON without its first brace
--   *fields text: names and values, that of all limits as JSON first
-- returns: JSON: false if the shard has other limits than `before`; then nothing is changed.
-- @include decision
-- @include audit
if (redis.call('HGET', key_limits, 'team') or '') ~= arg_before then return answer(false) end
append_audit(key_audit, arg_entry)
redis.call('DEL', key_limits)
redis.call('HSET', key_limits, unpack(args_fields))
return answer(true)
