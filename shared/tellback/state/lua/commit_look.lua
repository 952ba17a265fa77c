-- Commits what the passing of time made of one evaluation while no tool was called. Any number of sweepers may look at
-- the same evaluation: the version lets one of them commit. The mailbox's generation tells that nobody has taken what
-- waits since it was loaded.
-- KEYS: evaluation, mailbox, history, due set, counters.
-- ARGV: version that was loaded, version from now on, generation that was loaded, state, tool calls counted, member of the
-- due set, next look (see lib/evaluation), number of fields and values of newest calls, of feedback, of counters; then
-- field and value of newest calls in turn, the feedback (JSON each, with its `slot`), counter and increment in turn, the
-- history's lines (JSON each).
-- Returns 'ok' or 'stale'.
-- @include history
-- @include tally
-- @include evaluation
local FIRST = 11
local loaded = redis.call('HMGET', KEYS[1], 'version', 'takes')
if loaded[1] ~= ARGV[1] or (loaded[2] or '0') ~= ARGV[3] then
  return 'stale'
end
local keys = {eval = KEYS[1], mail = KEYS[2], due = KEYS[4]}
local calls, mails, counters = tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
keep_state(keys, ARGV[2], ARGV[4], ARGV[5], unpack(ARGV, FIRST, FIRST + calls - 1))
schedule(keys, ARGV[6], ARGV[7])
local place = FIRST + calls
if mails > 0 then
  local slots = {}
  for index = place, place + mails - 1 do
    slots[cjson.decode(ARGV[index]).slot] = true
  end
  outdate(keys, slots)
  deliver(keys, unpack(ARGV, place, place + mails - 1))
end
place = place + mails
tally_given(KEYS[5], place, counters)
remember(KEYS[3], unpack(ARGV, place + 2 * counters))
return 'ok'
