-- Takes the feedback that waits for one evaluation. Whoever's script runs first has it; feedback bound to a tool call
-- that is more than three calls old is dropped and counted.
-- KEYS: operation's reply, mailbox, evaluation.
-- Returns {"feedback": [JSON text, ...]}; nothing is stored while nothing waits, since agents ask often.
-- @include decision
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
local taken, expired = {}, 0
for _, raw in ipairs(waiting) do
  local bound = cjson.decode(raw).call_index or 0
  if bound > 0 and calls - bound > EXPIRES_AFTER then
    expired = expired + 1
  else
    taken[#taken + 1] = raw
  end
end
redis.call('DEL', KEYS[2])
if redis.call('EXISTS', KEYS[3]) == 1 then
  redis.call('HINCRBY', KEYS[3], 'expired', expired)
  redis.call('HINCRBY', KEYS[3], 'delivered', #taken)
end
if #taken == 0 then
  return '{"feedback":[]}'
end
return answer({feedback = taken})
