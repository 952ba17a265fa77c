-- For scripts on one turn. Its seven keys follow each other in KEYS: turn, due set, outbox of the channel, queue of the
-- conversation, channels, history of the session, counters.
-- @include outbox
-- @include history
-- @include turnstats
local TURN_LIFE = 604800000

local function turn_keys(first)
  return {
    turn = KEYS[first], due = KEYS[first + 1], out = KEYS[first + 2],
    queue = KEYS[first + 3], channels = KEYS[first + 4], history = KEYS[first + 5],
    stats = KEYS[first + 6],
  }
end

-- The turn as a table, or nil.
local function load_turn(keys)
  local flat = redis.call('HGETALL', keys.turn)
  if #flat == 0 then
    return nil
  end
  local turn = {}
  for index = 1, #flat, 2 do
    turn[flat[index]] = flat[index + 1]
  end
  return turn
end

local function write_turn(keys, ...)
  redis.call('HSET', keys.turn, ...)
  redis.call('PEXPIRE', keys.turn, TURN_LIFE)
end

local function set_due(keys, id, deadline)
  redis.call('ZADD', keys.due, deadline, id)
  redis.call('PEXPIRE', keys.due, TURN_LIFE)
end

-- Ends the obligation; the user's text is needed no longer.
local function close_turn(keys, id, state, now)
  redis.call('HDEL', keys.turn, 'text')
  redis.call('ZREM', keys.due, id)
  write_turn(keys, 'state', state, 'closed_at', now)
end

-- One history entry, counted. `fields` are added to those that every entry of a turn has.
local function tell(keys, turn, event, now, fields)
  local entry = {kind = 'turn', event = event, at = now, turn = turn.id, channel = turn.channel,
    conversation = turn.conversation}
  for name, value in pairs(fields) do
    entry[name] = value
  end
  remember(keys.history, cjson.encode(entry))
  count(keys.stats, 'turn:' .. event)
end

-- Puts one response into the outbox: the first answer of a turn (answer, fallback) or a late one, which refers to the
-- user's message. A conversation whose
-- queue is full loses its second oldest delivery (the oldest may be on its way), and the history says so.
local function post(keys, turn, kind, response, now)
  local suffix, field = ':first', 'delivery'
  if kind == 'late' then
    suffix, field = ':late', 'late_delivery'
  end
  if redis.call('LLEN', keys.queue) >= OUTBOX_CAP then
    local dropped = redis.call('LINDEX', keys.queue, 1)
    redis.call('LREM', keys.queue, 1, dropped)
    local lost = cjson.decode(dropped)
    tell(keys, turn, 'dead', now, {turn = lost.turn, key = lost.key, sent = lost.kind, error = 'the queue was full'})
    count_delivery(keys.stats, 'dead', turn.channel)
  end
  append(keys.out, keys.queue, turn.conversation, {
    key = turn.id .. suffix, turn = turn.id, session = turn.session, kind = kind, response = response, at = now,
    attempt = 0, waits = 0, reply_to = kind == 'late' and turn.message_id or nil,
  }, now)
  use_channel(keys.channels, turn.channel, now)
  write_turn(keys, field, 'waiting')
  if kind ~= 'late' and turn.state ~= 'auto' then
    observe(keys.stats, kind, now - tonumber(turn.opened_at))
  end
end

-- Takes the place of the turn's fallback, if no transport ever had it. Returns whether it did.
local function replace(keys, turn, response, now)
  local index, delivery = untaken(keys.queue, turn.id .. ':first')
  if not index then
    return false
  end
  delivery.kind, delivery.response, delivery.at = 'answer', response, now
  redis.call('LSET', keys.queue, index, cjson.encode(delivery))
  write_turn(keys, 'state', 'responded')
  return true
end
