-- Commits what a batch of events made of one evaluation: its state, the ids that it has seen, the feedback that it
-- earned, the lines of its session's history, and its share of the shard's counters. Atomic with the acknowledgement, so
-- that an event counts once and its feedback is due once, whoever dies; the version keeps two evaluators from building
-- on the same state.
-- KEYS: intake stream, lease, evaluation, seen ids, seen ids of the generation before, mailbox, history, due set,
-- counters.
-- ARGV: fence, entry ids (JSON), version that was loaded ('0' for none), state, tool calls counted, member of the due
-- set, next look (see lib/evaluation), slots whose waiting feedback is outdated (JSON), number of event ids, of feedback,
-- of counters; then the event ids, the feedback (JSON each), counter and increment in turn, the history's lines (JSON
-- each).
-- Returns 'ok', 'fenced', or 'stale': load again.
-- @include intake
-- @include history
-- @include seen
-- @include tally
-- @include evaluation
local FIRST = 12
if fenced() then
  return 'fenced'
end
local version = redis.call('HGET', KEYS[3], 'version') or '0'
if version ~= ARGV[3] then
  return 'stale'
end
settle()
local keys = {eval = KEYS[3], mail = KEYS[6], due = KEYS[8]}
local ids, mails, counters = tonumber(ARGV[9]), tonumber(ARGV[10]), tonumber(ARGV[11])
keep_state(keys, version, ARGV[4], ARGV[5])
schedule(keys, ARGV[6], ARGV[7])
if ids > 0 then
  see(KEYS[4], KEYS[5], unpack(ARGV, FIRST, FIRST + ids - 1))
end
if ARGV[8] ~= '' then
  local slots = {}
  for _, slot in ipairs(cjson.decode(ARGV[8])) do
    slots[slot] = true
  end
  outdate(keys, slots)
end
local place = FIRST + ids
if mails > 0 then
  deliver(keys, unpack(ARGV, place, place + mails - 1))
end
place = place + mails
tally_given(KEYS[9], place, counters)
remember(KEYS[7], unpack(ARGV, place + 2 * counters))
return 'ok'
