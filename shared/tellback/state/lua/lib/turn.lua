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

-- Makes the turn known to listings.
local function enlist(newest, turn)
  redis.call('ZADD', newest, turn.opened_at, turn.id)
  redis.call('ZREMRANGEBYRANK', newest, 0, -1001)
  redis.call('PEXPIRE', newest, TURN_LIFE)
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

-- Takes the delivery out for which there is no room, and says so: its turn, its history and the counters.
local function drop(keys, turn, now)
  local lost, error = keys.dropped.delivery, 'the outbox of the conversation was full'
  local late = lost.kind == 'late'
  redis.call('LREM', keys.queue, 1, keys.dropped.raw)
  if redis.call('EXISTS', keys.dropped.turn) == 1 then
    redis.call('HSET', keys.dropped.turn, late and 'late_delivery' or 'delivery', 'dropped',
      late and 'late_outcome' or 'outcome', cjson.encode({attempted = false, permanent = true, error = error}))
  end
  remember(keys.dropped.history, cjson.encode({kind = 'turn', event = 'dropped', at = now, turn = lost.turn,
    channel = turn.channel, conversation = turn.conversation, sent = lost.kind, key = lost.key, error = error}))
  count_delivery(keys.stats, 'dropped', turn.channel)
end

-- Puts one response into the outbox: the first answer of a turn (answer, fallback) or a late one, which refers to the
-- user's message. Where the queue was full, `crowded` of lib/room has found what goes.
local function post(keys, turn, kind, response, now)
  local suffix, field = ':first', 'delivery'
  if kind == 'late' then
    suffix, field = ':late', 'late_delivery'
  end
  if keys.dropped then
    drop(keys, turn, now)
  end
  append(keys.out, keys.queue, turn.conversation, {
    key = turn.id .. suffix, turn = turn.id, session = turn.session, kind = kind, response = response, at = now,
    attempt = 0, waits = 0, reply_to = kind == 'late' and turn.message_id or nil,
  }, now)
  use_channel(keys.channels, turn.channel, now)
  write_turn(keys, field, 'waiting')
  if kind ~= 'late' and turn.state ~= 'auto' and turn.state ~= 'fallback' then
    observe(keys.stats, kind, now - tonumber(turn.opened_at))
  end
end

-- Takes the place of the turn's fallback, if no transport ever had it: it waits, or there was no room for it. Returns
-- whether it did.
local function replace(keys, turn, response, now)
  if turn.delivery == 'dropped' then
    redis.call('HDEL', keys.turn, 'outcome')
    post(keys, turn, 'answer', response, now)
    write_turn(keys, 'state', 'responded')
    return true
  end
  local index, delivery = untaken(keys.queue, turn.id .. ':first')
  if not index then
    return false
  end
  delivery.kind, delivery.response, delivery.at = 'answer', response, now
  redis.call('LSET', keys.queue, index, cjson.encode(delivery))
  write_turn(keys, 'state', 'responded')
  return true
end
