-- Applies CommandSubmitted: queues the command, or stores its record at once if it cannot be run or was cancelled.
-- One script, so that the entry leaves the intake exactly when the command is queued or has its record.
-- KEYS: 1 intake stream, 2 its lease, 3 job, 4 jobs of the pool, 5 joborder of the pool, 6 pools, 7 records, 8 recorded,
--   9 done, 10 hist, 11 counters
-- ARGV: 1 fence, 2 entry ids, 3 command id, 4 session, 5 pool, 6 priority (0 first), 7 the submitted message,
--   8 record and 9 history entry of a refusal ('' if it may run), 10 record and 11 history entry of a cancellation
-- Returns 'ok' | 'fenced'
-- @include intake
-- @include jobs
if fenced() then
  return 'fenced'
end
settle()
local keys = {
  job = KEYS[3], jobs = KEYS[4], order = KEYS[5], pools = KEYS[6],
  records = KEYS[7], recorded = KEYS[8], done = KEYS[9], hist = KEYS[10], stats = KEYS[11],
}
local state = redis.call('HGET', keys.job, 'state')
if state == 'cancelled' then -- a tombstone: the cancellation overtook the submission
  store_record(keys, ARGV[10], ARGV[11], 'cancelled')
elseif state then
  return 'ok' -- submitted or delivered twice
elseif ARGV[8] ~= '' then
  store_record(keys, ARGV[8], ARGV[9], 'refused')
else
  enqueue(keys, ARGV[3], ARGV[4], ARGV[5], ARGV[6], ARGV[7], 1)
end
return 'ok'
