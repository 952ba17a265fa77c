-- The outbox of a channel in one shard. `out` holds the conversations that have deliveries, scored by the steady time
-- from which the first may be taken; `queue` holds one conversation's deliveries in order, each a JSON object:
--   key (idempotency key), turn, session, kind, response (JSON text), at, attempt, waits, and, if they apply, token
--   (taken and not settled), ambiguous (an earlier taker never settled), given_up (ambiguous: not sent again),
--   reconciles (how often the platform was asked whether it was sent).
-- constants: OUT_LIFETIME, OUTQ_LIFETIME, CHANNELS_LIFETIME
local OUTBOX_CAP = 1000
local CHANNELS_CAP = 1000
local LONGEST_ID = 512 -- bytes; those of turns have some 30

-- Lets the first delivery be taken from `at` on, or removes the conversation if its queue is empty. pcall: an outcome
-- must be stored whatever type the index has, or what was sent would be sent again.
local function schedule(out, queue, conversation, at)
  if redis.call('EXISTS', queue) == 1 then
    redis.pcall('ZADD', out, at, conversation)
    redis.call('PEXPIRE', out, OUT_LIFETIME)
    redis.call('PEXPIRE', queue, OUTQ_LIFETIME)
  else
    redis.pcall('ZREM', out, conversation)
  end
end

-- Appends a delivery. NX keeps the time of a conversation that waits already: an earlier time would send its first
-- delivery again while it is leased. `clock` is `due_now` of lib/steady. Returns true if no other waited.
local function append(out, queue, conversation, delivery, clock)
  redis.call('RPUSH', queue, cjson.encode(delivery))
  local is_first = redis.call('ZADD', out, 'NX', clock, conversation) == 1
  redis.call('PEXPIRE', out, OUT_LIFETIME)
  redis.call('PEXPIRE', queue, OUTQ_LIFETIME)
  return is_first
end

-- The second oldest delivery of a queue that is over its cap, as its `key`, `turn` and `session`, and its text; or nil.
-- The oldest may be on its way. One without these fields is nobody's, and goes at once; a host may have written any
-- number of them, so the next call removes the rest.
local function surplus(queue)
  for _ = 1, math.min(OUTBOX_CAP, redis.call('LLEN', queue) - OUTBOX_CAP) do
    local raw = redis.call('LINDEX', queue, 1)
    local is_read, found = pcall(cjson.decode, raw)
    if is_read and type(found) == 'table' and found.key and found.turn and found.session then
      return {key = found.key, turn = found.turn, session = found.session}, raw
    end
    redis.call('LREM', queue, 1, raw)
  end
end

-- Adds the channel to listings.
local function use_channel(channels, channel, now)
  local added = redis.pcall('ZADD', channels, now, channel)
  if type(added) == 'table' then return end -- another type: costs no answer
  if added == 1 then
    redis.call('ZREMRANGEBYRANK', channels, 0, -CHANNELS_CAP - 1)
  end
  redis.call('PEXPIRE', channels, CHANNELS_LIFETIME)
end

-- Rules out a text that does not have the id. Lua compares at each place, so a long id would take the product of both
-- lengths: one of 300 KB in an entry of 2 MB, both written by a host, held Redis up for 41 s.
local function may_name(text, id)
  return #id <= LONGEST_ID and string.find(text, id, 1, true)
end

-- The index and delivery of an idempotency key, or nil. No other delivery is decoded: they may be long, and one that
-- does not decode must not keep a turn from its answer. A delivery counts by its field `key`. A queue exceeds its cap
-- only for a moment, unless a host has written it.
local function find_delivery(queue, key)
  local name = cjson.encode(key)
  for index = 0, math.min(2 * OUTBOX_CAP, redis.call('LLEN', queue)) - 1 do
    local raw = redis.call('LINDEX', queue, index)
    local delivery = may_name(raw, name) and cjson.decode(raw)
    if delivery and delivery.key == key then
      return index, delivery
    end
  end
end
