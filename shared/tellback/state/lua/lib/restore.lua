-- For scripts that may find a turn lost: Redis failed over, and its last writes are gone. The user waits all the same, so the
-- turn is made again from what its host knows of it. What the session's history and the queue still tell counts first: a turn
-- that was answered is not answered again. Needs lib/turn.
local CLOSES = {answered = 'responded', replaced = 'responded', fallback = 'fallback', no_reply = 'no_reply', merged = 'merged'}
local SETTLES = {delivered = true, ambiguous = true, dead = true, dropped = true}

-- What the history still tells of a turn, as fields of it.
local function told_of(history, id)
  local found = {}
  for _, raw in ipairs(redis.call('LRANGE', history, 0, -1)) do
    local entry = string.find(raw, id, 1, true) and cjson.decode(raw)
    if entry and entry.kind == 'turn' and entry.turn == id then
      local event = entry.event
      if CLOSES[event] then
        found.state, found.closed_at, found.merged_into = CLOSES[event], entry.at, entry.into
        found.delivery = event ~= 'no_reply' and event ~= 'merged' and 'waiting' or nil
      elseif event == 'late' or event == 'stale' then
        found.late_at, found.late_delivery = entry.at, event == 'late' and 'waiting' or 'dropped'
      elseif SETTLES[event] then
        found[entry.sent == 'late' and 'late_delivery' or 'delivery'] = event
      end
    end
  end
  return found
end

-- The same of the queue, whose deliveries may be long: only the turn's own one is decoded.
local function queued_of(queue, id)
  local name = '"key":"' .. id .. ':first"'
  for index = 0, redis.call('LLEN', queue) - 1 do
    local raw = redis.call('LINDEX', queue, index)
    if string.find(raw, name, 1, true) then
      local delivery = cjson.decode(raw)
      return {state = delivery.kind == 'fallback' and 'fallback' or 'responded', closed_at = delivery.at,
        delivery = delivery.token and 'sending' or 'waiting'}
    end
  end
  return {}
end

-- Makes the turn again if it is lost. ARGV from `first` on: id (or '', and nothing is done), channel, conversation, session,
-- message id, language, opened at (ms), state in which it was opened, time (ms) in which it is owed if it is still open then.
-- One that has outlived its days stays gone.
local function restore(keys, newest, first, now)
  if ARGV[first] == '' or redis.call('EXISTS', keys.turn) == 1 then
    return
  end
  local opened = math.min(tonumber(ARGV[first + 6]), now)
  if now - opened >= TURN_LIFE then
    return
  end
  local turn = {id = ARGV[first], channel = ARGV[first + 1], conversation = ARGV[first + 2], opened_at = opened}
  local found = told_of(keys.history, turn.id)
  if not found.state then
    found = queued_of(keys.queue, turn.id)
  end
  found.state = found.state or ARGV[first + 7]
  write_turn(keys, 'id', turn.id, 'channel', turn.channel, 'conversation', turn.conversation, 'session', ARGV[first + 3],
    'message_id', ARGV[first + 4], 'language', ARGV[first + 5], 'opened_at', opened)
  for name, value in pairs(found) do
    write_turn(keys, name, value)
  end
  if found.state == 'open' then
    local within = tonumber(ARGV[first + 8])
    write_turn(keys, 'within', within, 'deadline', now + within, 'limit', now + within)
    set_due(keys, turn.id, now + within)
  end
  enlist(newest, turn)
  tell(keys, turn, 'restored', now, {state = found.state})
end
