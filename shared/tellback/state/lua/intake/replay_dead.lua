-- Move one dead letter back into its intake stream. Atomic: two operators must not replay it twice, and no crash may
-- lose it.
-- keys: operation, intake, +lease, +wakeup, /dead, /audit
-- args:
--   letter text: its id
--   entry text: the audit entry, JSON without its first brace
-- returns: {"entry": id}; {"entry": false} if there is no such letter; {"entry": false, "used_up": true} if the ids of
--   its stream are, and it holds entries.
-- @include append
-- @include decision
-- @include audit
local found = redis.call('XRANGE', key_dead, arg_letter, arg_letter)
if #found == 0 then
  return answer({entry = false})
end
local fields = found[1][2]
local raw
for i = 1, #fields, 2 do
  if fields[i] == 'raw' then
    raw = fields[i + 1]
  end
end
local id = append(raw)
if used_up(id) then
  return answer({entry = false, used_up = true})
elseif type(id) ~= 'string' then
  return id
end
redis.call('XDEL', key_dead, arg_letter)
append_audit(key_audit, arg_entry)
return answer({entry = id})
