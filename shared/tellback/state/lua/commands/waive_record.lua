-- Put a waiver into the record of a failed command. Atomic: the record is replaced only if it is still the one that the
-- caller read, so two waivers at once leave one, and the audit log names exactly those that were stored.
-- keys: operation, records, +hist, /audit
-- args:
--   before text: the record as the caller read it, JSON
--   after text: the same record with its waiver, JSON
--   history text: the history entry, JSON without its first brace
--   entry text: the audit entry, JSON without its first brace
-- returns: {"waived": true}, or {"waived": false} if the record has changed or was evicted.
-- @include decision
-- @include history
-- @include audit
local place = redis.call('LPOS', key_records, arg_before)
if not place then
  return answer({ waived = false })
end
redis.call('LSET', key_records, place, arg_after)
append_history(key_hist, '{"kind":"waiver","at":' .. now_ms() .. ',' .. arg_history)
append_audit(key_audit, arg_entry)
return answer({ waived = true })
