-- flags: allow-oom
-- Read entries that were delivered before and never applied. Each reading counts as a delivery, and too many deliveries
-- make a dead letter. Atomic: a consumer whose lease has passed on must not count one for an entry that the holder
-- applies.
-- keys: intake, +lease
-- args:
--   fence int
--   consumer str
--   after str: entry id; '0' begins
--   max_entries int
-- returns: [id, fields, deliveries] of each entry; the fields are nil if the entry was deleted | 'fenced'.
-- @include fence
-- @include delivered
local AT_ONCE = 500
if fenced() then
  return 'fenced'
end

-- Lists what was delivered up to an id as pending, as delivered once unless it is listed.
local function list_delivered(last)
  local from = '-'
  repeat
    local entries = redis.call('XRANGE', key_intake, from, last, 'COUNT', AT_ONCE)
    local command = {'XCLAIM', key_intake, 'consumer', arg_consumer, 0}
    for _, entry in ipairs(entries) do
      command[#command + 1] = entry[1]
      from = '(' .. entry[1]
    end
    if #entries > 0 then
      command[#command + 1] = 'FORCE'
      command[#command + 1] = 'JUSTID' -- any other claim counts a delivery
      redis.call(unpack(command))
    end
  until #entries < AT_ONCE
end

local delivered = arg_after == '0' and last_delivered()
if delivered then
  list_delivered(delivered)
end
local read = redis.pcall('XREADGROUP', 'GROUP', 'consumer', arg_consumer, 'COUNT', arg_max_entries,
  'STREAMS', key_intake, arg_after)
local entries = read and not read.err and read[1][2] or {} -- an error: there is no group, so nothing was read
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
