-- The first delivery of a conversation. Needs lib/outbox and lib/history.
-- @include turnstats

-- Writes the delivery's state to its turn. Checks that the turn exists, because HSET would recreate an expired one.
local function mark(keys, delivery, state)
  if redis.call('EXISTS', keys.turn) == 1 then
    redis.call('HSET', keys.turn, delivery.kind == 'late' and 'late_delivery' or 'delivery', state)
  end
end

local function store_outcome(keys, delivery, outcome)
  if redis.call('EXISTS', keys.turn) == 1 then
    redis.call('HSET', keys.turn, delivery.kind == 'late' and 'late_outcome' or 'outcome', outcome)
  end
end

-- Appends one history entry about the delivery and counts it; every event but a retry is also the delivery's state.
local function note(keys, delivery, channel, conversation, event, now, fields)
  local entry = {kind = 'turn', event = event, at = now, turn = delivery.turn, channel = channel,
    conversation = conversation, sent = delivery.kind, key = delivery.key}
  for name, value in pairs(fields) do
    entry[name] = value
  end
  append_history(keys.history, cjson.encode(entry))
  count_delivery(keys.stats, event, channel)
  if event ~= 'retry' then
    mark(keys, delivery, event)
  end
end

-- Removes the first delivery; the next may be taken at once: `clock` is `due_now` of lib/steady.
local function pop(keys, conversation, clock)
  redis.call('LPOP', keys.queue)
  redis.call('ZREM', keys.ambiguous, conversation)
  schedule(keys.out, keys.queue, conversation, clock)
end
