-- flags: allow-oom
-- Claim an ambiguous delivery, the first of its conversation, to ask the platform whether it was sent. The
-- delivery stays ambiguous; its score moves to when it may be claimed again. Atomic: two callers must not
-- both ask.
-- keys: queue, ambiguous, /clock
-- args:
--   conversation str
--   expected str: idempotency key
--   token str: of the caller
--   delay_ms int: before it may be claimed again
-- returns: {"status": taken | changed | unobserved, "delivery"}; changed: it was settled or is final, or another caller
--   has it. unobserved: observe the clock first.
-- @include steady
local clock, last = steady(now_ms())
local head = redis.call('LINDEX', key_queue, 0)
local delivery = head and cjson.decode(head)
if not delivery or not delivery.given_up then
  redis.call('ZREM', key_ambiguous, arg_conversation)
  return cjson.encode({status = 'changed'})
end
if delivery.token ~= arg_token then
  if unobserved(clock, last) then
    return cjson.encode({status = 'unobserved'})
  end
  local due = redis.call('ZSCORE', key_ambiguous, arg_conversation)
  if delivery.key ~= arg_expected or not due or tonumber(due) > clock then
    return cjson.encode({status = 'changed'})
  end
  delivery.token = arg_token
  delivery.reconciles = (delivery.reconciles or 0) + 1
  redis.call('LSET', key_queue, 0, cjson.encode(delivery))
  redis.call('ZADD', key_ambiguous, clock + tonumber(arg_delay_ms), arg_conversation)
end
return cjson.encode({status = 'taken', delivery = delivery})
