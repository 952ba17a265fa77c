-- Reads the next entries of a stream that no drainer has read: as many as a bound in bytes allows, by their average
-- size in the stream, and one if there is any. A script, since the count needs the size and many streams are read so.
-- KEYS: intake stream.  ARGV: consumer, most entries, bytes.  Returns the entries, as XREADGROUP has them.
local length = redis.call('XLEN', KEYS[1])
if length == 0 then
  return {}
end
local fitting = math.floor(tonumber(ARGV[3]) * length / redis.call('MEMORY', 'USAGE', KEYS[1]))
local count = math.max(1, math.min(tonumber(ARGV[2]), fitting))
local read = redis.call('XREADGROUP', 'GROUP', 'drain', ARGV[1], 'COUNT', count, 'STREAMS', KEYS[1], '>')
return read and read[1][2] or {}
