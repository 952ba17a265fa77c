-- Eviction from a conversation's full queue, for scripts that post. Needs lib/turn.
-- A queue at its cap loses its second oldest delivery, because the oldest may be on its way. The loss is reported to
-- the turn and the session history of that delivery, and only a caller that knows which delivery it will be can pass
-- those keys. Until then the script changes nothing and returns which one is to be evicted.

-- Notes in `keys` the delivery to evict, or returns the reply that asks the caller to pass the keys of that one.
-- `key` is the idempotency key of the delivery that the caller expects to be evicted, or ''; the keys evicted_turn and
-- evicted_hist are its turn and the history of its session.
local function check_eviction(keys, key)
  if redis.call('LLEN', keys.queue) < OUTBOX_CAP then
    return nil
  end
  local raw = redis.call('LINDEX', keys.queue, 1)
  local delivery = cjson.decode(raw)
  if delivery.key ~= key then
    return {result = 'full', key = delivery.key, turn = delivery.turn, session = delivery.session}
  end
  keys.dropped = {raw = raw, delivery = delivery, turn = key_evicted_turn, history = key_evicted_hist}
end
