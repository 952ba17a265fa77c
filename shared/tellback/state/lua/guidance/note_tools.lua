-- flags: allow-oom
-- Merge what calls observed about their tools. A refusal begins or extends a tool's cool-down; an answer to a call
-- that began after the last refusal ends it. Applying the same observation again, or one older than what is known,
-- changes nothing. A refusal counts as repeated only if it comes after the previous cool-down had ended: agents
-- refused at the same time count as one. A refusal that may concern one caller alone counts when another session met
-- one shortly before. Atomic: many workers read, merge and write the same tool's state.
-- keys: /health
-- args:
--   cooldown_ms int: if the tool names none
--   sightings text: JSON [[tool, at, began, refused (1 or 0), wait in ms that the tool named or -1, session of a
--     doubtful refusal or ""], ...], in order
-- returns: the server's time in ms.
-- @include clock
-- constants: HEALTH_LIFETIME, MINUTE_MS, HOUR_MS
local CAP, KEPT = 1000, 900 -- evicting 100 at once makes the full read and sort below rare
local SHORTEST, LONGEST = 1000, HOUR_MS -- bounds of every wait; named ones come from outside
local GROWN = 10 * MINUTE_MS -- the cap of the doubling when the tool named no wait
local FORGOTTEN = 10 * MINUTE_MS -- after this long without a refusal the doubling starts over
local DOUBTED = MINUTE_MS -- two sessions' doubtful refusals within this time confirm each other
local now, default = now_ms(), tonumber(arg_cooldown_ms)
local known, changed = {}, {}

local function state_of(tool)
  if known[tool] == nil then
    local raw = redis.call('HGET', key_health, tool)
    known[tool] = raw and cjson.decode(raw) or {ends = 0, began = 0, last = 0, strikes = 0, cleared = 0}
  end
  return known[tool]
end

local function refused(state, at, reported)
  if at <= state.cleared then
    return false
  end
  if at >= state.ends then
    if at - math.max(state.ends, state.last) > FORGOTTEN then
      state.strikes = 0
    end
    state.strikes, state.began = state.strikes + 1, at
  end
  local wait = reported
  if wait < 0 then
    if at < state.began then
      return false -- it belongs to an earlier refusal, and must not extend this cool-down
    end
    wait = math.min(default * 2 ^ math.min(state.strikes - 1, 20), math.max(default, GROWN))
  end
  wait = math.min(math.max(wait, SHORTEST), LONGEST)
  state.ends = math.max(state.ends, at + wait)
  state.last = math.max(state.last, at)
  return true
end

local function doubted(state, at, by)
  local doubt = state.doubt
  if at <= state.cleared or at <= (state.calm or 0) or (doubt and doubt.by == by and doubt.at >= at) then
    return false
  end
  if doubt and doubt.by ~= by and math.abs(at - doubt.at) <= DOUBTED then
    return refused(state, at, -1)
  end
  if doubt and doubt.at > at then
    return false
  end
  state.doubt = {by = by, at = at}
  return true
end

local function answered(state, at, began)
  local eased = state.doubt and began > state.doubt.at
  if eased then
    state.doubt, state.calm = nil, began
  end
  if state.last == 0 or began <= state.last or at <= state.cleared then
    return eased
  end
  state.ends, state.strikes, state.cleared = 0, 0, at
  return true
end

for _, seen in ipairs(cjson.decode(arg_sightings)) do
  local tool, at, began, is_refusal, reported, by = unpack(seen)
  local state = state_of(tool)
  local did
  if is_refusal == 1 and by ~= '' then
    did = doubted(state, at, by)
  elseif is_refusal == 1 then
    did = refused(state, at, reported)
  else
    did = answered(state, at, began)
  end
  changed[tool] = changed[tool] or did
end
for tool, did in pairs(changed) do
  if did then
    redis.call('HSET', key_health, tool, cjson.encode(known[tool]))
    redis.call('PEXPIRE', key_health, HEALTH_LIFETIME)
  end
end
if redis.call('HLEN', key_health) > CAP then
  local all, ends = {}, {}
  local flat = redis.call('HGETALL', key_health)
  for i = 1, #flat, 2 do
    all[#all + 1] = flat[i]
    ends[flat[i]] = cjson.decode(flat[i + 1]).ends
  end
  table.sort(all, function(a, b)
    return ends[a] > ends[b]
  end)
  redis.call('HDEL', key_health, unpack(all, KEPT + 1))
end
return now
