-- The reading of a stream. Scripts declare the key intake, and the arguments max_entries and max_bytes.
-- @include delivered

-- Entries that a script delivers. To convert a reply twice takes Redis five times as long as XRANGE alone, so of more
-- the caller reads the rest itself, and then calls deliver_entries.
local FEW = 32

-- The next entries that were delivered to no consumer, as XRANGE has them: as many as fit the bytes at the stream's
-- average entry size, and at least one if there is any. The count depends on the size, so only a script can ask in one
-- round trip. If they are many, they are not delivered: then 'many', the id before them and their number.
local function next_entries()
  local length = redis.call('XLEN', key_intake)
  if length == 0 then
    return {}
  end
  local fitting = math.floor(tonumber(arg_max_bytes) * length / redis.call('MEMORY', 'USAGE', key_intake))
  local count = math.max(1, math.min(tonumber(arg_max_entries), fitting))
  local after = last_delivered()
  if not after then -- in a new stream, and in an emptied database
    redis.call('XGROUP', 'CREATE', key_intake, 'consumer', '0')
    after = '0-0'
  end
  local entries = redis.call('XRANGE', key_intake, '(' .. after, '+', 'COUNT', math.min(count, FEW + 1))
  if #entries > FEW then
    return {'many', after, count}
  end
  if #entries > 0 then
    redis.call('XGROUP', 'SETID', key_intake, 'consumer', entries[#entries][1])
  end
  return entries
end
