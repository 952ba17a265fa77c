-- flags: allow-oom
-- Delete one dead letter for good. Atomic: the audit log names exactly the letters that were dropped.
-- keys: operation, /dead, /audit
-- args:
--   letter text: its id
--   entry text: the audit entry, JSON without its first brace
-- returns: {"dropped": 1}, or {"dropped": 0} if there is no such letter.
-- @include decision
-- @include audit
local dropped = redis.call('XDEL', key_dead, arg_letter)
if dropped == 1 then
  append_audit(key_audit, arg_entry)
end
return answer({ dropped = dropped })
