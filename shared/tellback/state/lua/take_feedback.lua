-- Takes the feedback that waits for one evaluation. Whoever's script runs first has it; feedback bound to a tool call
-- that is more than three calls old is dropped and counted. What came by time alone is bound to none; taking it makes the
-- evaluation due again after its period, `every`. `takes` counts the mailbox's generations: it tells evaluators that
-- nothing of an earlier one waits any more.
-- KEYS: operation's reply, mailbox, evaluation, counters, due set. ARGV: member of the due set.
-- Returns {"feedback": [JSON text, ...]}; nothing is stored while nothing waits, since agents ask often.
-- @include decision
-- @include tally
local EXPIRES_AFTER = 3
local replayed = replay()
if replayed then
  return replayed
end
local waiting = redis.call('LRANGE', KEYS[2], 0, -1)
if #waiting == 0 then
  return '{"feedback":[]}'
end
local calls = tonumber(redis.call('HGET', KEYS[3], 'calls') or '0')
local taken, every, counts = {}, nil, {expired = 0, same_call = 0, late = 0, timed = 0}
for _, raw in ipairs(waiting) do
  local feedback = cjson.decode(raw)
  local bound = feedback.call_index or 0
  local fate = 'late'
  if feedback.slot then
    fate = 'timed'
    every = math.min(every or math.huge, feedback.every or math.huge)
  elseif bound > 0 and calls - bound > EXPIRES_AFTER then
    fate = 'expired'
  elseif calls <= bound then
    fate = 'same_call'
  end
  counts[fate] = counts[fate] + 1
  if fate ~= 'expired' then
    taken[#taken + 1] = raw
  end
end
redis.call('DEL', KEYS[2])
if redis.call('EXISTS', KEYS[3]) == 1 then
  redis.call('HINCRBY', KEYS[3], 'expired', counts.expired)
  redis.call('HINCRBY', KEYS[3], 'delivered', #taken)
  redis.call('HINCRBY', KEYS[3], 'takes', 1)
  redis.call('HSET', KEYS[3], 'taken_at', now_ms())
  if every and every < math.huge then
    redis.call('ZADD', KEYS[5], 'LT', string.format('%.0f', now_ms() + every), ARGV[1])
    redis.call('PEXPIRE', KEYS[5], 604800000)
  end
end
local tallies = {}
for fate, count in pairs(counts) do
  if count > 0 then
    tallies['delivery:' .. fate] = count
  end
end
tally(KEYS[4], tallies)
if #taken == 0 then
  return '{"feedback":[]}'
end
return answer({feedback = taken})
