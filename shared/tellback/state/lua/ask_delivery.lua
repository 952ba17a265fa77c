-- Takes an ambiguous delivery, the first of its conversation, for one caller who asks the platform whether it was sent. It
-- stays ambiguous, and its conversation waits no longer for that.
-- KEYS: queue, conversations of the channel that are unsure.
-- ARGV: conversation, expected idempotency key, token, pause before it may be asked for again (ms).
-- Returns {"status": taken | changed, "delivery"}; changed: it is settled, final, or another one asks.
-- @include clock
local now = now_ms()
local head = redis.call('LINDEX', KEYS[1], 0)
local delivery = head and cjson.decode(head)
if not delivery or not delivery.final then
  redis.call('ZREM', KEYS[2], ARGV[1])
  return cjson.encode({status = 'changed'})
end
if delivery.token ~= ARGV[3] then
  local due = redis.call('ZSCORE', KEYS[2], ARGV[1])
  if delivery.key ~= ARGV[2] or not due or tonumber(due) > now then
    return cjson.encode({status = 'changed'})
  end
  delivery.token = ARGV[3]
  delivery.asks = (delivery.asks or 0) + 1
  redis.call('LSET', KEYS[1], 0, cjson.encode(delivery))
  redis.call('ZADD', KEYS[2], now + tonumber(ARGV[4]), ARGV[1])
end
return cjson.encode({status = 'taken', delivery = delivery})
