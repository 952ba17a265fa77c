-- flags: allow-oom
-- Release a stream, and the pending marker if its consumer lingered. Atomic: if the lease expires after the check,
-- another consumer may hold both, and the caller must not delete them.
-- keys: intake, +lease, +wakeup
-- args:
--   fence int
-- returns: 1 if the caller held the lease, else 0.
-- @include fence
-- @include release
if fenced() then
  return 0
end
return release()
