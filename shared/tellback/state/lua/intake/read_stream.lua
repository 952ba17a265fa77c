-- flags: allow-oom
-- Read the next entries of a stream that no consumer has read, or release the stream if there are none. Atomic: a
-- consumer whose lease has passed on must not read an entry, because only it would apply that one, and the holder would
-- apply later ones first; and an entry that came between an empty read and the release would have no wake-up.
-- keys: intake, +lease, +wakeup
-- args:
--   fence int
--   max_entries int
--   max_bytes int
--   or_release flag: release the stream if there are none
-- returns: what next_entries returns | 'released' | 'fenced'.
-- @include fence
-- @include reading
-- @include release
if fenced() then
  return 'fenced'
end
local entries = next_entries()
if #entries == 0 and arg_or_release == '1' then
  release()
  return 'released'
end
return entries
