-- flags: allow-oom
-- Give the holder of a stream's lease entries that stand behind others. Atomic: a consumer whose lease has passed on must
-- not be given an entry, because the holder may apply a later one of the same session first. They are pending from here
-- on, so a consumer that dies leaves them to the next.
-- keys: intake, lease
-- args:
--   fence int
--   consumer str
--   *entries str: ids
-- returns: the entries, as XREADGROUP has them, without those that are gone | 'fenced'.
-- @include fence
if fenced() then
  return 'fenced'
end
local command = {'XCLAIM', key_intake, 'consumer', arg_consumer, 0, unpack(args_entries)}
command[#command + 1] = 'FORCE' -- nobody was given them yet
return redis.call(unpack(command))
