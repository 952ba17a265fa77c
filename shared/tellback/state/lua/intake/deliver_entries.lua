-- flags: allow-oom
-- Deliver entries that the holder of a stream's lease has read itself. It does so with many of them (lib/reading).
-- Atomic: a consumer whose lease has passed on must not be given an entry, because only it would apply that one, and
-- the holder would apply later ones first.
-- keys: intake, +lease
-- args:
--   fence int
--   last str: the id of the last of them
-- returns: 1 | 0: another consumer may hold the stream.
-- @include fence
if fenced() then
  return 0
end
redis.call('XGROUP', 'SETID', key_intake, 'consumer', arg_last)
return 1
