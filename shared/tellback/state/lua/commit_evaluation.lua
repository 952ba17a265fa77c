-- Commits what a batch of events made of one evaluation: its state, the ids that it has seen, the feedback that it
-- earned and the lines of its session's history. Atomic with the acknowledgement, so that an event counts once and
-- its feedback is due once, whoever dies; the version keeps two evaluators from building on the same state.
-- KEYS: intake stream, lease, evaluation, seen ids, seen ids of the generation before, mailbox, history.
-- ARGV: fence, entry ids (JSON), version that was loaded ('0' for none), state, tool calls counted, number of event ids,
-- number of feedback; then the event ids, the feedback (JSON each), the history's lines (JSON each).
-- Returns 'ok', 'fenced', or 'stale': load again.
-- @include intake
-- @include history
local WEEK = 604800000
local GENERATION = 50000
if fenced() then
  return 'fenced'
end
local version = redis.call('HGET', KEYS[3], 'version') or '0'
if version ~= ARGV[3] then
  return 'stale'
end
settle()
local ids, mails = tonumber(ARGV[6]), tonumber(ARGV[7])
redis.call('HSET', KEYS[3], 'version', tonumber(version) + 1, 'state', ARGV[4], 'calls', ARGV[5])
redis.call('PEXPIRE', KEYS[3], WEEK)
if ids > 0 then
  if redis.call('SCARD', KEYS[4]) + ids > GENERATION then
    redis.call('RENAME', KEYS[4], KEYS[5])
  end
  redis.call('SADD', KEYS[4], unpack(ARGV, 8, 7 + ids))
  redis.call('PEXPIRE', KEYS[4], WEEK)
end
if mails > 0 then
  redis.call('RPUSH', KEYS[6], unpack(ARGV, 8 + ids, 7 + ids + mails))
  redis.call('LTRIM', KEYS[6], -100, -1)
  redis.call('PEXPIRE', KEYS[6], WEEK)
end
remember(KEYS[7], unpack(ARGV, 8 + ids + mails))
return 'ok'
