-- Keeps changes that were published to a whole session, for every evaluation of it to read, and acknowledges them.
-- Atomic with the acknowledgement and the ids that were seen, so that a change is told once.
-- KEYS: intake stream, lease, changes of the session, seen ids, seen ids of the generation before, history.
-- ARGV: fence, entry ids (JSON); then for each change its event id, its entry's order, the change (JSON without its first
-- brace), and its line of the history (JSON).
-- Each is kept with an `n` that grows within the session: the entry's order, or one more than the last.
-- Returns 'ok' or 'fenced'.
-- @include intake
-- @include history
-- @include seen
local KEPT = 100
local WEEK = 604800000
if fenced() then
  return 'fenced'
end
settle()
local newest = redis.call('LINDEX', KEYS[3], -1)
local n = newest and cjson.decode(newest).n or 0
for index = 3, #ARGV, 4 do
  local id = ARGV[index]
  if redis.call('SISMEMBER', KEYS[4], id) == 0 and redis.call('SISMEMBER', KEYS[5], id) == 0 then
    see(KEYS[4], KEYS[5], id)
    n = math.max(tonumber(ARGV[index + 1]), n + 1)
    redis.call('RPUSH', KEYS[3], string.format('{"n":%.0f,', n) .. ARGV[index + 2])
    remember(KEYS[6], ARGV[index + 3])
  end
end
redis.call('LTRIM', KEYS[3], -KEPT, -1)
redis.call('PEXPIRE', KEYS[3], WEEK)
return 'ok'
