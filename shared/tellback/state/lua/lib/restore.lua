-- The restoring of a lost turn: Redis failed over and lost its last writes. The user is still waiting, so a script that
-- finds it lost recreates it from what its host knows of it. The session's history and the queue have precedence: a
-- turn that they show as answered is not answered again. Needs lib/turn.
-- constants: TURN_LIFETIME
local CLOSES = {
  answered = 'responded', replaced = 'responded', fallback = 'fallback', no_reply = 'no_reply', merged = 'merged',
}
local SETTLES = {delivered = true, ambiguous = true, dead = true, dropped = true}

-- Fields of a turn, as far as the history still has them. The search spares decoding 1,000 entries of other turns: an
-- entry counts by its fields, and not because the id is somewhere in its text.
local function reported_of(history, id)
  local found = {}
  for _, raw in ipairs(redis.call('LRANGE', history, -1000, -1)) do
    local entry = may_name(raw, id) and cjson.decode(raw)
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

-- The same fields from the queue.
local function queued_of(queue, id)
  local _, delivery = find_delivery(queue, id .. ':first')
  if not delivery then return {} end
  return {state = delivery.kind == 'fallback' and 'fallback' or 'responded', closed_at = delivery.at,
    delivery = delivery.token and 'sending' or 'waiting'}
end

-- Recreates a lost turn from the arguments lost_*. A turn older than its lifetime stays deleted.
local function restore(keys, now)
  local opened = math.min(tonumber(arg_lost_opened_at), now)
  if now - opened >= TURN_LIFETIME then
    return
  end
  local turn = {id = arg_lost_id, channel = arg_lost_channel, conversation = arg_lost_conversation, opened_at = opened}
  local found = reported_of(keys.hist, turn.id)
  if not found.state then
    found = queued_of(keys.queue, turn.id)
  end
  found.state = found.state or arg_lost_state
  write_turn(keys, 'id', turn.id, 'channel', turn.channel, 'conversation', turn.conversation,
    'session', arg_lost_session, 'message_id', arg_lost_message_id, 'language', arg_lost_language, 'opened_at', opened)
  for name, value in pairs(found) do
    write_turn(keys, name, value)
  end
  if found.state == 'open' then
    local within, clock = tonumber(arg_lost_within_ms), steady(now)
    set_due(keys, turn, clock + within, now, 'within', within, limit_fields(clock + within, now))
  end
  add_to_listing(key_turns, turn)
  report(keys, turn, 'restored', now, {state = found.state})
end

-- Returns the turn as `load_turn` does, after restoring a lost one if the caller passed its origin.
local function load_or_restore(keys, now)
  local turn = load_turn(keys)
  if turn or arg_lost_id == '' then
    return turn
  end
  restore(keys, now)
  return load_turn(keys)
end
