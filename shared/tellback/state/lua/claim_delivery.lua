-- Takes the first delivery of a conversation under a lease, for one transport. The token is the operation id: the same
-- call again gets the same delivery. The queue's score is the end of the lease, so an unsettled delivery comes again.
-- KEYS: outbox, queue, turn of the delivery, history of its session, conversations that are unsure, counters.
-- ARGV: channel, conversation, expected idempotency key, token, lease (ms), attempts allowed.
-- Returns {"status": taken | changed, "delivery", "at"}; changed: somebody was faster, look again.
-- @include clock
-- @include outbox
-- @include history
-- @include delivery
local now = now_ms()
local keys = {out = KEYS[1], queue = KEYS[2], turn = KEYS[3], history = KEYS[4], unsure = KEYS[5], stats = KEYS[6]}
local head = redis.call('LINDEX', keys.queue, 0)
if not head then
  redis.call('ZREM', keys.out, ARGV[2])
  return cjson.encode({status = 'changed'})
end
local delivery = cjson.decode(head)
if delivery.key ~= ARGV[3] then
  return cjson.encode({status = 'changed'})
end
if delivery.token ~= ARGV[4] then
  local ready = redis.call('ZSCORE', keys.out, ARGV[2])
  if not ready or tonumber(ready) > now then
    return cjson.encode({status = 'changed'})
  end
  if delivery.final then
    pop(keys, ARGV[2], now)
    return cjson.encode({status = 'changed'})
  end
  delivery.unsure = delivery.unsure or delivery.token ~= nil
  if delivery.attempt >= tonumber(ARGV[6]) then
    note(keys, delivery, ARGV[1], ARGV[2], 'dead', now, {error = 'taken ' .. delivery.attempt .. ' times, never settled'})
    pop(keys, ARGV[2], now)
    return cjson.encode({status = 'changed'})
  end
  delivery.attempt = delivery.attempt + 1
  delivery.token = ARGV[4]
  redis.call('LSET', keys.queue, 0, cjson.encode(delivery))
  schedule(keys.out, keys.queue, ARGV[2], now + tonumber(ARGV[5]))
  mark(keys, delivery, 'sending')
end
return cjson.encode({status = 'taken', delivery = delivery})
