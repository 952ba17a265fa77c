-- One turn and its conversation. Scripts declare the keys turn, due, out (the channel's outbox), posted (of the
-- channel), queue (of the conversation), channels, hist (of the session) and turnstats.
-- @include outbox
-- @include history
-- @include turnstats
-- @include steady
-- constants: TURN_LIFETIME, DUE_LIFETIME, TURNS_LIFETIME, POSTED_LIFETIME

-- First: if a key that others share has another type, nothing is done.
redis.call('ZCARD', key_due)
redis.call('ZCARD', key_out)

local function turn_keys()
  return {
    turn = key_turn, due = key_due, out = key_out, queue = key_queue, channels = key_channels, hist = key_hist,
    turnstats = key_turnstats,
  }
end

-- By how much a steady time is too late that was set at `set_at`. If that is in the future, both were set between a
-- forward step and its observation; they are moved back to start now. `stood_at` is the server's clock when they were
-- set while the steady one stood still, after a backward step. If nobody had observed the team for minutes, it stood
-- that much in the past; once the step is counted, they move forward.
local function ahead_of(set_at, stood_at)
  local ahead = math.max(0, tonumber(set_at or 0) - steady(now_ms()))
  if stood_at then ahead = math.min(ahead, set_at - since_standstill(tonumber(set_at), tonumber(stood_at))) end
  return ahead
end

-- The turn as a table, or nil. `deadline` and `limit` are steady times, which were set at `set_at` and `limit_at`.
local function load_turn(keys)
  local flat = redis.call('HGETALL', keys.turn)
  if #flat == 0 then
    return nil
  end
  local turn = {}
  for index = 1, #flat, 2 do
    turn[flat[index]] = flat[index + 1]
  end
  if not turn.deadline then
    return turn
  end
  if not turn.limit_at then -- of an earlier release
    turn.limit_at, turn.limit_stood_at = turn.set_at, turn.stood_at
  end
  for _, names in ipairs({{'deadline', 'set_at', 'stood_at'}, {'limit', 'limit_at', 'limit_stood_at'}}) do
    local time, set_at, stood_at = unpack(names)
    local ahead = ahead_of(turn[set_at], turn[stood_at])
    if ahead ~= 0 then
      turn[time], turn[set_at] = turn[time] - ahead, turn[set_at] - ahead
      redis.call('HSET', keys.turn, time, turn[time], set_at, turn[set_at])
      redis.call('HDEL', keys.turn, stood_at)
    end
  end
  return turn
end

local function write_turn(keys, ...)
  redis.call('HSET', keys.turn, ...)
  redis.call('PEXPIRE', keys.turn, TURN_LIFETIME)
end

-- Schedules the deadline. If the clock is far beyond its last observation, either nobody sweeps or the clock has
-- stepped. In case it has, the next sweep gets the turn at once: only soon after the step does `set_at` show how far it
-- is ahead. A sweep that came after the time to answer would restart that time, and one that came before a second step
-- was observed has moved the turn by a part of the first.
local function schedule_sweep(keys, id, deadline)
  local clock, last = steady(now_ms())
  redis.call('ZADD', keys.due, unobserved(clock, last) and last or deadline, id)
end

-- A deadline or limit of a turn, as a time of `clock`. Far beyond the last observation, a time that was set before is
-- moved as if the clock had stepped since: if it has, load_turn moves it back once that is observed. If nobody
-- observes, the user waits that much longer.
local function at_clock(time, set_at, clock, now)
  local known = due_now(now)
  if tonumber(set_at or 0) > known then return tonumber(time) end
  return tonumber(time) + clock - known
end

-- The fields of the time beyond which no progress extends the deadline, which is set now.
local function limit_fields(limit, now)
  local clock, _, stands = steady(now)
  if stands then return 'limit', limit, 'limit_at', clock, 'limit_stood_at', now end
  return 'limit', limit, 'limit_at', clock
end

-- Sets the deadline, from now on, and the other fields given.
local function set_due(keys, turn, deadline, now, ...)
  local clock, _, stands = steady(now)
  if stands then
    write_turn(keys, 'deadline', deadline, 'set_at', clock, 'stood_at', now, ...)
  else
    write_turn(keys, 'deadline', deadline, 'set_at', clock, ...)
    if turn.stood_at then
      redis.call('HDEL', keys.turn, 'stood_at')
    end
  end
  schedule_sweep(keys, turn.id, deadline)
  redis.call('PEXPIRE', keys.due, DUE_LIFETIME)
end

-- Adds the turn to listings. pcall: one of another type must cost no turn and no answer.
local function add_to_listing(newest, turn)
  redis.pcall('ZADD', newest, turn.opened_at, turn.id)
  redis.pcall('ZREMRANGEBYRANK', newest, 0, -1001)
  redis.call('PEXPIRE', newest, TURNS_LIFETIME)
end

-- Closes the turn, sets the other fields given, and deletes the user's text, which nothing needs any more.
local function close_turn(keys, id, state, now, ...)
  local clock = steady(now)
  redis.call('HDEL', keys.turn, 'text')
  redis.call('ZREM', keys.due, id)
  write_turn(keys, 'state', state, 'closed_at', now, 'closed_steady', clock, ...)
end

-- Appends one history entry and counts it. `fields` are added to those that every entry of a turn has.
local function report(keys, turn, event, now, fields)
  local entry = {kind = 'turn', event = event, at = now, turn = turn.id, channel = turn.channel,
    conversation = turn.conversation}
  for name, value in pairs(fields) do
    entry[name] = value
  end
  append_history(keys.hist, cjson.encode(entry))
  count(keys.turnstats, 'turn:' .. event)
end

-- Ends the wait of one of the channel's transports, now or when the next one begins to wait.
local function wake_transport()
  if redis.call('EXISTS', key_posted) == 0 then redis.call('RPUSH', key_posted, 1) end
  redis.call('PEXPIRE', key_posted, POSTED_LIFETIME)
end

-- Adds one response to the outbox: a turn's first one (answer, fallback) or a late one, which refers to the user's
-- message; the caller sets the turn's field `delivery` or `late_delivery` to 'waiting', with what else it sets, and
-- returns the `surplus` of the queue.
local function post(keys, turn, kind, response, now)
  local is_first = append(keys.out, keys.queue, turn.conversation, {
    key = turn.id .. (kind == 'late' and ':late' or ':first'), turn = turn.id, session = turn.session, kind = kind,
    response = response, at = now, attempt = 0, waits = 0, reply_to = kind == 'late' and turn.message_id or nil,
  }, due_now(now))
  -- Behind another there is nothing to take yet: answers to a conversation in its backoff made one poll each.
  if is_first then wake_transport() end
  use_channel(keys.channels, turn.channel, now)
  if kind ~= 'late' and turn.state ~= 'auto' and turn.state ~= 'fallback' then
    observe(keys.turnstats, kind, now - tonumber(turn.opened_at))
  end
end

-- Replaces the turn's fallback if no transport ever took it: it still waits, or it was evicted. Returns true if it did.
local function replace(keys, turn, response, now)
  if turn.delivery == 'dropped' then
    redis.call('HDEL', keys.turn, 'outcome')
    post(keys, turn, 'answer', response, now)
    write_turn(keys, 'state', 'responded', 'delivery', 'waiting')
    return true
  end
  local index, delivery = find_delivery(keys.queue, turn.id .. ':first')
  if not index or delivery.token or delivery.ambiguous or delivery.given_up then
    return false
  end
  delivery.kind, delivery.response, delivery.at = 'answer', response, now
  redis.call('LSET', keys.queue, index, cjson.encode(delivery))
  write_turn(keys, 'state', 'responded')
  return true
end
