-- flags: allow-oom
-- Add an act to the audit log before it begins, if one script cannot do it whole. Atomic: a call whose reply was lost
-- and that is repeated adds one entry.
-- keys: operation, /audit
-- args:
--   entry text: the audit entry, JSON without its first brace
-- returns: {"logged": true}
-- @include decision
-- @include audit
append_audit(key_audit, arg_entry)
return answer({ logged = true })
