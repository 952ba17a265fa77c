-- For scripts on the first delivery of a conversation; needs lib/outbox and lib/history.
-- @include turnstats

-- Writes what is known of a delivery to its turn, unless the turn is gone.
local function mark(keys, delivery, state)
  if redis.call('EXISTS', keys.turn) == 1 then
    redis.call('HSET', keys.turn, delivery.kind == 'late' and 'late_delivery' or 'delivery', state)
  end
end

local function keep_outcome(keys, delivery, outcome)
  if redis.call('EXISTS', keys.turn) == 1 then
    redis.call('HSET', keys.turn, delivery.kind == 'late' and 'late_outcome' or 'outcome', outcome)
  end
end

-- One history entry about the delivery, counted; all but a retry are also its state.
local function note(keys, delivery, channel, conversation, event, now, fields)
  local entry = {kind = 'turn', event = event, at = now, turn = delivery.turn, channel = channel,
    conversation = conversation, sent = delivery.kind, key = delivery.key}
  for name, value in pairs(fields) do
    entry[name] = value
  end
  remember(keys.history, cjson.encode(entry))
  count_delivery(keys.stats, event, channel)
  if event ~= 'retry' then
    mark(keys, delivery, event)
  end
end

-- The first delivery is done; the next may be taken at once.
local function pop(keys, conversation, now)
  redis.call('LPOP', keys.queue)
  redis.call('ZREM', keys.unsure, conversation)
  schedule(keys.out, keys.queue, conversation, now)
end
