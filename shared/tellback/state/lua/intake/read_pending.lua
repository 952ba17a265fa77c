-- flags: allow-oom
-- Read entries that were delivered before and never applied. Each reading counts as a delivery, and too many deliveries
-- make a dead letter. Atomic: a consumer whose lease has passed on must not count one for an entry that the holder
-- applies.
-- keys: intake, +lease
-- args:
--   fence int
--   consumer str
--   after str: entry id
--   max_entries int
-- returns: [id, fields, deliveries] of each entry; the fields are nil if the entry was deleted | 'fenced'.
-- @include fence
-- @include delivered
if fenced() then
  return 'fenced'
end
local delivered = last_delivered()
if not delivered then -- there is no group, so nothing was read
  return {}
end

-- Lists as many as it may read as pending, as delivered once unless they are listed. To list all that was delivered,
-- 50,000 entries after an operator's XGROUP SETID, held Redis up for 0.3 s with each recovery.
local command = {'XCLAIM', key_intake, 'consumer', arg_consumer, 0}
local left = redis.pcall('XRANGE', key_intake, '(' .. arg_after, delivered, 'COUNT', arg_max_entries)
for _, entry in ipairs(left.err and {} or left) do -- an error: no id is after the last possible one
  command[#command + 1] = entry[1]
end
if #command > 5 then
  command[#command + 1] = 'FORCE'
  command[#command + 1] = 'JUSTID' -- any other claim counts a delivery
  redis.call(unpack(command))
end

local read = redis.call('XREADGROUP', 'GROUP', 'consumer', arg_consumer, 'COUNT', arg_max_entries,
  'STREAMS', key_intake, arg_after)
local entries = read and read[1][2] or {}
if #entries == 0 then
  return entries
end
local first, last = entries[1][1], entries[#entries][1]
local deliveries = {}
for _, pending in ipairs(redis.call('XPENDING', key_intake, 'consumer', first, last, arg_max_entries)) do
  deliveries[pending[1]] = pending[4]
end
for _, entry in ipairs(entries) do
  entry[3] = deliveries[entry[1]] or 1
end
return entries
