-- Says what became of a delivery that was taken, or that was ambiguous and that the platform was asked for.
-- KEYS: operation, outbox, queue, turn of the delivery, history of its session, conversations that are unsure, counters.
-- ARGV: channel, conversation, idempotency key, token, settlement (delivered | retry | wait | ambiguous | dead), pause
--       before it may be taken again or is final (ms), attempts allowed, outcome (JSON), pause before
--       the platform may be asked about an ambiguous one (ms).
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
local keys = {out = KEYS[2], queue = KEYS[3], turn = KEYS[4], history = KEYS[5], unsure = KEYS[6], stats = KEYS[7]}
local conversation, settlement, pause = ARGV[2], ARGV[5], tonumber(ARGV[6])
local head = redis.call('LINDEX', keys.queue, 0)
local delivery = head and cjson.decode(head)
if not delivery or delivery.key ~= ARGV[3] or (delivery.token ~= ARGV[4] and settlement ~= 'delivered') then
  return answer({result = 'lost'})
end
if delivery.final and settlement == 'ambiguous' then -- the platform does not know either
  return answer({result = 'ambiguous'})
end
local now = now_ms()
local outcome = cjson.decode(ARGV[8])
local told = {attempt = delivery.attempt, error = outcome.error ~= cjson.null and outcome.error or nil,
  reconciled = delivery.final}
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
  redis.call('ZADD', keys.unsure, now + tonumber(ARGV[9]), conversation)
  redis.call('PEXPIRE', keys.unsure, OUTBOX_LIFE)
  note(keys, delivery, ARGV[1], conversation, 'ambiguous', now, told)
else
  if settlement == 'wait' then
    delivery.attempt = delivery.attempt - 1
    delivery.waits = delivery.waits + 1
  end
  if delivery.final then -- the platform says that it was not sent
    delivery.final, delivery.unsure, delivery.asks = nil, nil, nil
    redis.call('ZREM', keys.unsure, conversation)
  end
  mark(keys, delivery, delivery.unsure and 'sending' or 'waiting')
  if settlement == 'retry' or told.reconciled then
    note(keys, delivery, ARGV[1], conversation, 'retry', now, told)
  else
    count_delivery(keys.stats, 'wait', ARGV[1])
  end
end
redis.call('LSET', keys.queue, 0, cjson.encode(delivery))
schedule(keys.out, keys.queue, conversation, now + pause)
return answer({result = settlement == 'wait' and 'retry' or settlement})
