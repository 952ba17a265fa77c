-- Puts one dead letter back into its intake stream.
-- KEYS: operation, dead letters, intake stream.  ARGV: id of the dead letter.
-- Returns {"entry": id} or {"entry": false} when there is no such letter.
-- @include decision
local replayed = replay()
if replayed then
  return replayed
end
local found = redis.call('XRANGE', KEYS[2], ARGV[1], ARGV[1])
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
local id = redis.call('XADD', KEYS[3], '*', 'm', raw)
redis.call('XDEL', KEYS[2], ARGV[1])
return answer({entry = id})
