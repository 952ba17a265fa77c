-- Says what became of a delivery that was taken.
-- KEYS: operation, outbox, queue, turn of the delivery, history of its session.
-- ARGV: channel, conversation, idempotency key, token, settlement (delivered | retry | wait | ambiguous | dead), pause
--       before it may be taken again or is final (ms), attempts allowed, outcome (JSON).
-- `wait` is a retry that spends no attempt. Whoever says delivered is believed even when its lease has passed on: the user
-- has the message. Returns {"result": delivered | retry | ambiguous | dead | lost}.
-- @include decision
-- @include outbox
-- @include history
-- @include delivery
local replayed = replay()
if replayed then
  return replayed
end
local keys = {out = KEYS[2], queue = KEYS[3], turn = KEYS[4], history = KEYS[5]}
local conversation, settlement, pause = ARGV[2], ARGV[5], tonumber(ARGV[6])
local head = redis.call('LINDEX', keys.queue, 0)
local delivery = head and cjson.decode(head)
if not delivery or delivery.key ~= ARGV[3] or (delivery.token ~= ARGV[4] and settlement ~= 'delivered') then
  return answer({result = 'lost'})
end
local now = now_ms()
local outcome = cjson.decode(ARGV[8])
local told = {attempt = delivery.attempt, error = outcome.error ~= cjson.null and outcome.error or nil}
if settlement == 'retry' and delivery.attempt >= tonumber(ARGV[7]) then
  settlement = 'dead'
end
keep_outcome(keys, delivery, ARGV[8])
if settlement == 'delivered' or settlement == 'dead' then
  note(keys, delivery, ARGV[1], conversation, settlement, now, told)
  pop(keys, conversation, now)
  return answer({result = settlement})
end
delivery.token = nil
if settlement == 'ambiguous' then
  delivery.final = true
  note(keys, delivery, ARGV[1], conversation, 'ambiguous', now, told)
elseif settlement == 'retry' then
  mark(keys, delivery, delivery.unsure and 'sending' or 'waiting')
  note(keys, delivery, ARGV[1], conversation, 'retry', now, told)
else
  delivery.attempt = delivery.attempt - 1
  delivery.waits = delivery.waits + 1
  mark(keys, delivery, delivery.unsure and 'sending' or 'waiting')
end
redis.call('LSET', keys.queue, 0, cjson.encode(delivery))
schedule(keys.out, keys.queue, conversation, now + pause)
return answer({result = settlement == 'wait' and 'retry' or settlement})
