-- flags: allow-oom
-- Settle a delivery that was taken, or an ambiguous one after its platform was asked. `wait` is a retry that spends no
-- attempt. `delivered` is believed even after the lease has passed on, because the user has the message. Atomic: the
-- queue, the turn and the history change together, and no crash leaves a settled delivery first in the queue.
-- keys: operation, out, +ambiguous, queue, turn, hist, /turnstats, /clock
-- args:
--   channel str
--   conversation str
--   expected str: idempotency key
--   token str: of the claim
--   settlement str: delivered, retry, wait, ambiguous or dead
--   delay_ms int: before it may be taken again or is final
--   attempts int: how many are allowed
--   outcome text: JSON
--   reconcile_ms int: before the platform may be asked about an ambiguous one
-- returns: {"result": delivered | retry | ambiguous | dead | lost}.
-- @include decision
-- @include steady
-- @include outbox
-- @include history
-- @include delivery
-- constants: AMBIGUOUS_LIFETIME
local conversation, settlement, delay = arg_conversation, arg_settlement, tonumber(arg_delay_ms)
local head = redis.call('LINDEX', key_queue, 0)
local delivery = head and cjson.decode(head)
if not delivery or delivery.key ~= arg_expected or (delivery.token ~= arg_token and settlement ~= 'delivered') then
  return answer({result = 'lost'})
end
if delivery.given_up and settlement == 'ambiguous' then -- the platform could not tell either
  return answer({result = 'ambiguous'})
end
local now = now_ms()
local clock = due_now(now) -- an outcome cannot wait for an observation; without one its delay may be off by seconds
local outcome = cjson.decode(arg_outcome)
local reported = {attempt = delivery.attempt, error = outcome.error ~= cjson.null and outcome.error or nil,
  reconciled = delivery.given_up}
if settlement == 'retry' and delivery.attempt >= tonumber(arg_attempts) then
  settlement = 'dead'
end
mark(delivery, 'outcome', arg_outcome)
if settlement == 'delivered' or settlement == 'dead' then
  note(delivery, arg_channel, conversation, settlement, now, reported)
  pop(key_out, key_ambiguous, conversation, due_now(now))
  return answer({result = settlement})
end
delivery.token = nil
if settlement == 'ambiguous' then
  delivery.given_up = true
  redis.pcall('ZADD', key_ambiguous, clock + tonumber(arg_reconcile_ms), conversation) -- as in `pop`
  redis.call('PEXPIRE', key_ambiguous, AMBIGUOUS_LIFETIME)
  note(delivery, arg_channel, conversation, 'ambiguous', now, reported)
else
  if settlement == 'wait' then
    delivery.attempt = delivery.attempt - 1
    delivery.waits = delivery.waits + 1
  end
  if delivery.given_up then -- the platform says that it was not sent: send it again
    delivery.given_up, delivery.ambiguous, delivery.reconciles = nil, nil, nil
    redis.pcall('ZREM', key_ambiguous, conversation)
  end
  mark(delivery, 'delivery', delivery.ambiguous and 'sending' or 'waiting')
  if settlement == 'retry' or reported.reconciled then
    note(delivery, arg_channel, conversation, 'retry', now, reported)
  else
    count_delivery(key_turnstats, 'wait', arg_channel)
  end
end
redis.call('LSET', key_queue, 0, cjson.encode(delivery))
schedule(key_out, key_queue, conversation, clock + delay)
return answer({result = settlement == 'wait' and 'retry' or settlement})
