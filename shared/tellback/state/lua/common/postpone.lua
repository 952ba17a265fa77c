-- flags: allow-oom
-- Move a due member of an index to a later time. Atomic: a member that was renewed, rescheduled or removed since the
-- caller saw it due must stay as it is; otherwise the caller would extend a lease or recreate an entry.
-- keys: index, /clock
-- args:
--   member str
--   ms int: from now
-- returns: 1 if the member was moved, else 0.
-- @include steady
-- due_now: after a forward step that nobody has observed yet, `steady` would take a new lease for an expired one, and
-- the member would wait that much longer.
local at, now = redis.call('ZSCORE', key_index, arg_member), due_now(now_ms())
if not at or tonumber(at) > now then
  return 0
end
redis.call('ZADD', key_index, 'XX', now + arg_ms, arg_member)
return 1
