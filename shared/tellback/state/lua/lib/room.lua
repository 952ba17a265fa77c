-- Room in the queue of a conversation, for scripts that post; needs lib/turn.
-- A queue at its cap loses its second oldest delivery: the oldest may be on its way. What is dropped is told to its own turn
-- and in its own session's history, whose keys only a caller can pass that knows which delivery it will be. So a script
-- whose caller does not know yet changes nothing, and says which one is in the way.

-- Remembers in `keys` what must go, or returns what the script answers in place of any change: the delivery in the way.
-- `key` is the idempotency key of the delivery that the caller expects to be dropped, or ''; its turn and the history of its
-- session follow in KEYS from `first` on.
local function crowded(keys, key, first)
  if redis.call('LLEN', keys.queue) < OUTBOX_CAP then
    return nil
  end
  local raw = redis.call('LINDEX', keys.queue, 1)
  local delivery = cjson.decode(raw)
  if delivery.key ~= key then
    return {result = 'crowded', key = delivery.key, turn = delivery.turn, session = delivery.session}
  end
  keys.dropped = {raw = raw, delivery = delivery, turn = KEYS[first], history = KEYS[first + 1]}
end
