-- The reading of a stream. Scripts declare the key intake, and the arguments consumer, max_entries and max_bytes.

-- Creates the consumers' group, from the first entry on. It is missing in a new stream, and in an emptied database.
local function create_group()
  redis.call('XGROUP', 'CREATE', key_intake, 'consumer', '0')
end

-- The next entries that no consumer has read, as XREADGROUP has them: as many as fit the bytes at the stream's average
-- entry size, and at least one if there is any. The count depends on the size, so only a script can ask in one round
-- trip.
local function next_entries()
  local length = redis.call('XLEN', key_intake)
  if length == 0 then
    return {}
  end
  local fitting = math.floor(tonumber(arg_max_bytes) * length / redis.call('MEMORY', 'USAGE', key_intake))
  local count = math.max(1, math.min(tonumber(arg_max_entries), fitting))
  local command = {'XREADGROUP', 'GROUP', 'consumer', arg_consumer, 'COUNT', count, 'STREAMS', key_intake, '>'}
  local read = redis.pcall(unpack(command))
  if read and read.err then
    create_group()
    read = redis.call(unpack(command))
  end
  return read and read[1][2] or {}
end
