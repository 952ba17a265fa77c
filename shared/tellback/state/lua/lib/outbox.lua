-- The outbox of a channel in one shard. `out` holds the conversations that have deliveries, scored by the time from which
-- the first may be taken; `queue` holds one conversation's deliveries in order, each a JSON object:
--   key (idempotency key), turn, session, kind, response (JSON text), at, attempt, waits, and, where they apply,
--   token (taken, and not settled), unsure (an earlier taker never settled), final (ambiguous: not sent again), asks
--   (how often the platform was asked whether it was sent).
local OUTBOX_LIFE = 604800000
local OUTBOX_CAP = 1000
local CHANNELS_CAP = 1000

-- The first delivery may be taken from `at` on; nothing waits if the queue is empty.
local function schedule(out, queue, conversation, at)
  if redis.call('EXISTS', queue) == 1 then
    redis.call('ZADD', out, at, conversation)
    redis.call('PEXPIRE', out, OUTBOX_LIFE)
    redis.call('PEXPIRE', queue, OUTBOX_LIFE)
  else
    redis.call('ZREM', out, conversation)
  end
end

-- Appends a delivery; a conversation that waits already keeps its time, so that order holds.
local function append(out, queue, conversation, delivery, now)
  redis.call('RPUSH', queue, cjson.encode(delivery))
  redis.call('ZADD', out, 'NX', now, conversation)
  redis.call('PEXPIRE', out, OUTBOX_LIFE)
  redis.call('PEXPIRE', queue, OUTBOX_LIFE)
end

-- Makes the channel known to listings.
local function use_channel(channels, channel, now)
  redis.call('ZADD', channels, now, channel)
  redis.call('ZREMRANGEBYRANK', channels, 0, -CHANNELS_CAP - 1)
  redis.call('PEXPIRE', channels, OUTBOX_LIFE)
end

-- The place and the delivery of an idempotency key that nobody has ever taken, or nil.
local function untaken(queue, key)
  for index = 0, redis.call('LLEN', queue) - 1 do
    local delivery = cjson.decode(redis.call('LINDEX', queue, index))
    if delivery.key == key then
      if delivery.token or delivery.unsure or delivery.final then
        return nil
      end
      return index, delivery
    end
  end
end
