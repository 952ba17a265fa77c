-- flags: allow-oom
-- Read the next entries of a stream that no consumer has read: as many as fit a byte limit at the stream's average
-- entry size, and at least one if there is any. A script because the count depends on the size and many streams are
-- read in one round trip.
-- keys: intake
-- args:
--   consumer str
--   max_entries int
--   max_bytes int
-- returns: the entries, as XREADGROUP has them.
local length = redis.call('XLEN', key_intake)
if length == 0 then
  return {}
end
local fitting = math.floor(tonumber(arg_max_bytes) * length / redis.call('MEMORY', 'USAGE', key_intake))
local count = math.max(1, math.min(tonumber(arg_max_entries), fitting))
local read = redis.call('XREADGROUP', 'GROUP', 'consumer', arg_consumer, 'COUNT', count, 'STREAMS', key_intake, '>')
return read and read[1][2] or {}
