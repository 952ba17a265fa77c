-- Takes what calls said of their tools: a refusal begins or prolongs a tool's cool-down, an answer to a call that began
-- after the last refusal ends it. Atomic, so that many workers merge what they saw; applying the same again, or what is
-- older than what is known, changes nothing. A refusal counts as repeated when it comes after the cool-down before it
-- had ended: a crowd that is refused at once is one. A refusal that may have been one call's own counts when another
-- session has met one, a short while before.
-- KEYS: health.
-- ARGV: cool-down in ms where none is told, JSON [[tool, at, began, refused (1 or 0), told wait in ms or -1,
-- who met it, where it is doubtful, or ""], ...], in order.
-- @include clock
local LIFE = 7200000
local CAP, KEPT = 1000, 900
local SHORTEST, LONGEST = 1000, 3600000
local GROWN = 600000 -- the longest that repeated refusals make of a wait that nobody told
local FORGOTTEN = 600000 -- a tool that had this long in peace begins anew
local DOUBTED = 60000 -- for how long one session's doubtful refusal is remembered
local now, default = now_ms(), tonumber(ARGV[1])
local known, changed = {}, {}

local function state_of(tool)
  if known[tool] == nil then
    local raw = redis.call('HGET', KEYS[1], tool)
    known[tool] = raw and cjson.decode(raw) or {ends = 0, began = 0, last = 0, strikes = 0, cleared = 0}
  end
  return known[tool]
end

local function refused(state, at, told)
  if at <= state.cleared then
    return false
  end
  if at >= state.ends then
    if at - math.max(state.ends, state.last) > FORGOTTEN then
      state.strikes = 0
    end
    state.strikes, state.began = state.strikes + 1, at
  end
  local wait = told
  if wait < 0 then
    if at < state.began then
      return false -- it was part of an earlier crowd, and must not wait as long as this one
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

for _, seen in ipairs(cjson.decode(ARGV[2])) do
  local tool, at, began, is_refusal, told, by = unpack(seen)
  local state = state_of(tool)
  local did
  if is_refusal == 1 and by ~= '' then
    did = doubted(state, at, by)
  elseif is_refusal == 1 then
    did = refused(state, at, told)
  else
    did = answered(state, at, began)
  end
  changed[tool] = changed[tool] or did
end
for tool, did in pairs(changed) do
  if did then
    redis.call('HSET', KEYS[1], tool, cjson.encode(known[tool]))
    redis.call('PEXPIRE', KEYS[1], LIFE)
  end
end
if redis.call('HLEN', KEYS[1]) > CAP then
  local all, ends = {}, {}
  local flat = redis.call('HGETALL', KEYS[1])
  for i = 1, #flat, 2 do
    all[#all + 1] = flat[i]
    ends[flat[i]] = cjson.decode(flat[i + 1]).ends
  end
  table.sort(all, function(a, b)
    return ends[a] > ends[b]
  end)
  redis.call('HDEL', KEYS[1], unpack(all, KEPT + 1))
end
return now
