-- flags: allow-oom
-- Return and remove the waiting feedback of one evaluation. Feedback bound to a tool call is dropped and counted once
-- more than three calls have followed. Feedback of a timer is bound to none; taking it makes the evaluation due again
-- after `every`, its period. `takes` counts the mailbox's generations and shows consumers that nothing of an earlier
-- one is waiting. If the caller's key of counters is not that of the server's day, nothing is taken and the reply says
-- which day it is. Atomic: two callers must not get the same feedback.
-- keys: operation, evaluation, +mailbox, guidestats, /timers, /clock
-- args:
--   member str: of timers
--   day int: that of `guidestats`, in days since the epoch
-- returns: {"feedback": [JSON text, ...]}, or {"day": N} to call again with the key of that day. An empty reply is not
--   stored, because agents ask often.
-- @include decision
-- @include tally
-- @include steady
-- constants: DAY_MS, TIMERS_LIFETIME
local EXPIRES_AFTER = 3
local waiting = redis.call('LRANGE', key_mailbox, 0, -1)
if #waiting == 0 then
  return '{"feedback":[]}'
end
local today = math.floor(now_ms() / DAY_MS)
if today ~= tonumber(arg_day) then
  return string.format('{"feedback":[],"day":%d}', today)
end
local stored = redis.call('HGET', key_evaluation, 'calls')
local calls = tonumber(stored or '0')
local taken, every, counts = {}, nil, {expired = 0, same_call = 0, late = 0, timed = 0}
for _, raw in ipairs(waiting) do
  local is_read, feedback = pcall(cjson.decode, raw)
  if not is_read or type(feedback) ~= 'table' then feedback = {} end -- the caller leaves it out, and gets the others
  local bound = tonumber(feedback.call_index) or 0
  local fate = 'late'
  if feedback.slot then
    fate = 'timed'
    every = math.min(every or math.huge, tonumber(feedback.every) or math.huge)
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
local now = onward(now_ms()) -- the time of the events and timers, with which it is compared
redis.call('DEL', key_mailbox)
if stored then
  if counts.expired > 0 then redis.call('HINCRBY', key_evaluation, 'expired', counts.expired) end
  redis.call('HINCRBY', key_evaluation, 'delivered', #taken)
  redis.call('HINCRBY', key_evaluation, 'takes', 1)
  redis.call('HSET', key_evaluation, 'taken_at', now)
  if every and every < math.huge then
    -- pcall: whatever the timers hold, the feedback has left the mailbox and must reach its agent
    redis.pcall('ZADD', key_timers, 'LT', string.format('%.0f', now + every), arg_member)
    redis.call('PEXPIRE', key_timers, TIMERS_LIFETIME)
  end
end
local tallies = {}
for fate, count in pairs(counts) do
  if count > 0 then
    tallies['delivery:' .. fate] = count
  end
end
tally(key_guidestats, tallies)
if #taken == 0 then
  return '{"feedback":[]}'
end
return answer({feedback = taken})
