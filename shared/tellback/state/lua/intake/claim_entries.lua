-- flags: allow-oom
-- Give the holder of a stream's lease entries that are behind others. Atomic: a consumer whose lease has passed on must
-- not be given an entry, because the holder may apply a later one of the same session first. They are pending from here
-- on, so a consumer that dies leaves them to the next.
-- keys: intake, +lease
-- args:
--   fence int
--   consumer str
--   *entries str: ids
-- returns: the entries, as XRANGE has them, without those that are gone | 'fenced'.
-- @include fence
if fenced() then
  return 'fenced'
end
-- JUSTID: any other claim counts two deliveries of an entry that nobody was given. One that overtook before and failed
-- keeps its count, which the next consumer's recovery raises.
local command = {'XCLAIM', key_intake, 'consumer', arg_consumer, 0, unpack(args_entries)}
command[#command + 1] = 'FORCE'
command[#command + 1] = 'JUSTID'
local entries = {}
for i, id in ipairs(redis.call(unpack(command))) do
  entries[i] = redis.call('XRANGE', key_intake, id, id)[1]
end
return entries
