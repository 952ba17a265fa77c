-- Commits what a batch of events made of one evaluation: its state, the ids that it has seen, the feedback that it
-- earned, the lines of its session's history, and its share of the shard's counters. Atomic with the acknowledgement, so
-- that an event counts once and its feedback is due once, whoever dies; the version keeps two evaluators from building
-- on the same state.
-- KEYS: intake stream, lease, evaluation, seen ids, seen ids of the generation before, mailbox, history, due set,
-- counters.
-- ARGV: fence, entry ids (JSON), version that was loaded ('0' for none), version from now on, state, tool calls counted,
-- '1' where nobody has looked whether the event ids were seen, member of the due set, next look (see lib/evaluation),
-- slots whose waiting feedback is outdated (JSON), number of fields and values of newest calls, of event ids, of feedback,
-- of counters; then field and value of newest calls in turn, the event ids, the feedback (JSON each), counter and
-- increment in turn, the history's lines (JSON each).
-- Returns 'ok', 'fenced', or 'stale': load again, of what was not looked for one was seen before.
-- @include intake
-- @include history
-- @include seen
-- @include tally
-- @include evaluation
local FIRST = 15
if fenced() then
  return 'fenced'
end
if (redis.call('HGET', KEYS[3], 'version') or '0') ~= ARGV[3] then
  return 'stale'
end
local calls, ids, mails, counters = tonumber(ARGV[11]), tonumber(ARGV[12]), tonumber(ARGV[13]), tonumber(ARGV[14])
local place = FIRST + calls
if ARGV[7] == '1' and ids > 0 and any_seen(KEYS[4], KEYS[5], unpack(ARGV, place, place + ids - 1)) then
  return 'stale'
end
settle()
local keys = {eval = KEYS[3], mail = KEYS[6], due = KEYS[8]}
keep_state(keys, ARGV[4], ARGV[5], ARGV[6], unpack(ARGV, FIRST, FIRST + calls - 1))
schedule(keys, ARGV[8], ARGV[9])
if ids > 0 then
  see(KEYS[4], KEYS[5], unpack(ARGV, place, place + ids - 1))
end
if ARGV[10] ~= '' then
  local slots = {}
  for _, slot in ipairs(cjson.decode(ARGV[10])) do
    slots[slot] = true
  end
  outdate(keys, slots)
end
place = place + ids
if mails > 0 then
  deliver(keys, unpack(ARGV, place, place + mails - 1))
end
place = place + mails
tally_given(KEYS[9], place, counters)
remember(KEYS[7], unpack(ARGV, place + 2 * counters))
return 'ok'
