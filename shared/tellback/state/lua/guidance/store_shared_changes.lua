-- flags: allow-oom
-- Store changes that were published to a whole session, and acknowledge their entries. Each of its evaluations reads
-- them. Atomic with the acknowledgement and the seen ids: a change is reported once. Each change gets a number `n`
-- that grows within the session: its entry's order, or one more than the last.
-- keys: intake, lease, changes, seen, seen_old, hist
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
ack()
local newest = redis.call('LINDEX', key_changes, -1)
local n = newest and cjson.decode(newest).n or 0
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
