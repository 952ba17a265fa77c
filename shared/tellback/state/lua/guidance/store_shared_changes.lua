-- flags: allow-oom
-- Store changes that were published to a whole session, and acknowledge their entries. Each of its evaluations reads
-- them. Atomic with the acknowledgement and the seen ids: a change is reported once. Each change gets a number `n`
-- that grows within the session: its entry's order, or one more than the last.
-- keys: intake, +lease, changes, +hist, seen, +seen_old
-- args:
--   fence int
--   entries text: JSON array of the ids that leave the stream
--   *event_ids str: of each change
--   *orders int: of its entry
--   *shared text: JSON without its first brace
--   *lines text: of the history, JSON
-- returns: 'ok' | 'fenced'.
-- @include intake
-- @include history
-- @include seen
-- constants: CHANGES_LIFETIME
local KEPT = 100
if fenced() then
  return 'fenced'
end
local newest = redis.call('LINDEX', key_changes, -1)
local is_read, change = pcall(cjson.decode, newest or '{}') -- a newer release may have written it
local n = is_read and type(change) == 'table' and tonumber(change.n) or 0
expect_type('set', key_seen, key_seen_old)
ack()
for i, id in ipairs(args_event_ids) do
  if not any_seen(key_seen, key_seen_old, id) then
    mark_seen(key_seen, key_seen_old, id)
    n = math.max(tonumber(args_orders[i]), n + 1)
    redis.call('RPUSH', key_changes, string.format('{"n":%.0f,', n) .. args_shared[i])
    append_history(key_hist, args_lines[i])
  end
end
redis.call('LTRIM', key_changes, -KEPT, -1)
redis.call('PEXPIRE', key_changes, CHANGES_LIFETIME)
return 'ok'
