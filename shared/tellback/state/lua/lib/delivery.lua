-- The first delivery of a conversation. Needs lib/outbox and lib/history. Scripts declare the keys queue, turn, hist
-- and turnstats.
-- @include turnstats

-- Writes a field of the delivery, `delivery` or `outcome`, to its turn. Checks that the turn exists, because HSET would
-- recreate an expired one. pcall: one of another type must not hold up the conversation.
local function mark(delivery, name, value)
  if redis.call('EXISTS', key_turn) == 1 then
    redis.pcall('HSET', key_turn, delivery.kind == 'late' and 'late_' .. name or name, value)
  end
end

-- Appends one history entry about the delivery and counts it; every event but a retry is also the delivery's state.
local function note(delivery, channel, conversation, event, now, fields)
  local entry = {kind = 'turn', event = event, at = now, turn = delivery.turn, channel = channel,
    conversation = conversation, sent = delivery.kind, key = delivery.key}
  for name, value in pairs(fields) do
    entry[name] = value
  end
  append_history(key_hist, cjson.encode(entry))
  count_delivery(key_turnstats, event, channel)
  if event ~= 'retry' then
    mark(delivery, 'delivery', event)
  end
end

-- Removes the first delivery; the next may be taken at once: `clock` is `due_now` of lib/steady. pcall: an index of
-- another type must not leave this half done.
local function pop(out, ambiguous, conversation, clock)
  redis.call('LPOP', key_queue)
  redis.pcall('ZREM', ambiguous, conversation)
  schedule(out, key_queue, conversation, clock)
end
