-- flags: allow-oom
-- Lease the first delivery of a conversation to one transport. The token is the operation id, and a repeated call gets
-- the same delivery. The conversation's score becomes the end of the lease, when an unsettled delivery is due again.
-- Atomic: two transports must not both send it.
-- keys: out, +ambiguous, queue, turn, hist, /turnstats, /clock
-- args:
--   channel str
--   conversation str
--   expected str: idempotency key
--   token str: of the caller
--   lease_ms int
--   attempts int: how many are allowed
-- returns: {"status": taken | changed | unobserved, "delivery"}; changed: the queue is not as the caller saw it; read
--   it again. unobserved: observe the clock first.
-- @include steady
-- @include outbox
-- @include history
-- @include delivery
local now = now_ms()
local clock, last = steady(now)
local head = redis.call('LINDEX', key_queue, 0)
if not head then
  redis.call('ZREM', key_out, arg_conversation)
  return cjson.encode({status = 'changed'})
end
local delivery = cjson.decode(head)
if delivery.key ~= arg_expected then
  return cjson.encode({status = 'changed'})
end
if delivery.token ~= arg_token then
  if unobserved(clock, last) then
    return cjson.encode({status = 'unobserved'})
  end
  local ready = redis.call('ZSCORE', key_out, arg_conversation)
  if not ready or tonumber(ready) > clock then
    return cjson.encode({status = 'changed'})
  end
  if delivery.given_up then
    pop(key_out, key_ambiguous, arg_conversation, due_now(now))
    return cjson.encode({status = 'changed'})
  end
  delivery.ambiguous = delivery.ambiguous or delivery.token ~= nil
  if delivery.attempt >= tonumber(arg_attempts) then
    note(delivery, arg_channel, arg_conversation, 'dead', now,
      {error = 'taken ' .. delivery.attempt .. ' times, never settled'})
    pop(key_out, key_ambiguous, arg_conversation, due_now(now))
    return cjson.encode({status = 'changed'})
  end
  delivery.attempt = delivery.attempt + 1
  delivery.token = arg_token
  redis.call('LSET', key_queue, 0, cjson.encode(delivery))
  schedule(key_out, key_queue, arg_conversation, clock + tonumber(arg_lease_ms))
  mark(delivery, 'delivery', 'sending')
end
return cjson.encode({status = 'taken', delivery = delivery})
