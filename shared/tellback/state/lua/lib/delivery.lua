-- The first delivery of a conversation. Needs lib/outbox and lib/history.
-- @include turnstats

-- Writes a field of the delivery, `delivery` or `outcome`, to its turn. Checks that the turn exists, because HSET would
-- recreate an expired one. pcall: one of another type must not hold up the conversation.
local function mark(keys, delivery, name, value)
  if redis.call('EXISTS', keys.turn) == 1 then
    redis.pcall('HSET', keys.turn, delivery.kind == 'late' and 'late_' .. name or name, value)
  end
end

-- Appends one history entry about the delivery and counts it; every event but a retry is also the delivery's state.
local function note(keys, delivery, channel, conversation, event, now, fields)
  local entry = {kind = 'turn', event = event, at = now, turn = delivery.turn, channel = channel,
    conversation = conversation, sent = delivery.kind, key = delivery.key}
  for name, value in pairs(fields) do
    entry[name] = value
  end
  append_history(keys.hist, cjson.encode(entry))
  count_delivery(keys.turnstats, event, channel)
  if event ~= 'retry' then
    mark(keys, delivery, 'delivery', event)
  end
end

-- Removes the first delivery; the next may be taken at once: `clock` is `due_now` of lib/steady. pcall: an index of
-- another type must not leave this half done.
local function pop(keys, conversation, clock)
  redis.call('LPOP', keys.queue)
  redis.pcall('ZREM', keys.ambiguous, conversation)
  schedule(keys.out, keys.queue, conversation, clock)
end
