-- flags: allow-oom
-- Claim the visits that are due: active teams not visited for one period, the others not for a longer one. The claim is
-- the visit's time, so each team has one visitor in a period, and one that dies costs a period. Atomic: two visitors
-- would otherwise claim the same teams. A time in the future is due: the server's clock was set back.
-- First it notes the teams that notifications name, and removes these, in the same script: a dispatcher whose read was
-- lost, or that died, thus delays a wake-up by a period at most. A team that no dispatcher has read of is due at once.
-- keys: teams, active, noticed, notifications
-- args:
--   active_ms int: period of the active teams
--   idle_ms int: period of all teams
--   most int: teams at once
--   notices int: notifications at once
--   *only str: the teams that the caller serves; none: all
-- returns: the names of the active teams, those of the others, and 1 if more notifications wait.
-- @include clock
-- @include notice
local now = now_ms()
local most = tonumber(arg_most)

-- True if no dispatcher has read the entry: then nobody has published its wake-up.
local delivered_ms, delivered_seq = 0, 0
local groups = redis.pcall('XINFO', 'GROUPS', key_notifications)
for _, group in ipairs(groups.err and {} or groups) do
  for i = 1, #group, 2 do
    if group[i] == 'last-delivered-id' then
      delivered_ms, delivered_seq = string.match(group[i + 1], '(%d+)-(%d+)')
    end
  end
end
local function is_unread(id)
  local ms, seq = string.match(id, '(%d+)-(%d+)')
  ms, seq = tonumber(ms) - delivered_ms, tonumber(seq) - delivered_seq
  return ms > 0 or (ms == 0 and seq > 0)
end

local read = redis.call('XRANGE', key_notifications, '-', '+', 'COUNT', arg_notices)
for _, entry in ipairs(read) do
  local about = entry[2][2]
  local team = string.match(about, '^tb:{([^.]+)%.') or about
  notice(team, now)
  if is_unread(entry[1]) then
    redis.call('ZADD', key_active, 'XX', 0, team)
  end
  redis.call('XDEL', key_notifications, entry[1])
end

local function due(key, period)
  local last = now - tonumber(period)
  local found = {}
  if #args_only > 0 then
    local scores = redis.call('ZMSCORE', key, unpack(args_only))
    for i, team in ipairs(args_only) do
      local at = tonumber(scores[i] or nil)
      if at and (at <= last or at > now) and #found < most then
        found[#found + 1] = team
      end
    end
  else
    found = redis.call('ZRANGE', key, '-inf', last, 'BYSCORE', 'LIMIT', 0, most)
    for _, team in ipairs(redis.call('ZRANGE', key, '(' .. now, '+inf', 'BYSCORE', 'LIMIT', 0, most)) do
      found[#found + 1] = team
    end
  end
  for _, team in ipairs(found) do
    redis.call('ZADD', key, 'XX', now, team)
  end
  return found
end

local active = due(key_active, arg_active_ms)
local others = due(key_teams, arg_idle_ms)
local known = {}
for _, team in ipairs(active) do known[team] = true end
local idle = {}
for _, team in ipairs(others) do
  if not known[team] then idle[#idle + 1] = team end
end
return {active, idle, #read == tonumber(arg_notices) and 1 or 0}
