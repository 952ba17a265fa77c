-- flags: allow-oom
-- Claim the visits that are due: active places not visited for one period, whole teams not for a longer one. A place is
-- a team, or one of its shards if a notification named a stream. The claim is the visit's time, so each place has one
-- visitor in a period, and one that dies costs a period. Atomic: two visitors would otherwise claim the same places. A
-- time in the future is due: the server's clock was set back.
-- First it notes the places that notifications name, and removes these, in the same script: a dispatcher whose read was
-- lost, or that died, thus delays a wake-up by a period at most. A place that no dispatcher has read of is due at once.
-- keys: /teams, /active, /noticed, /notifications
-- args:
--   active_ms int: period of the active places
--   idle_ms int: period of all teams
--   whole_ms int: until all shards are visited of a team of which a notification named one
--   quiet_ms int: for which a notification is remembered
--   most int: visits at once
--   notices int: notifications at once
--   *only str: the teams that the caller serves; none: all
-- returns: the active places, the names of the other teams, and 1 if more notifications wait.
-- @include clock
-- @include notice
local PAGE = 1000 -- places read at once to find those of some teams among them
local LAST_ID = '18446744073709551615-18446744073709551615'
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
  local about, unread = entry[2][2], is_unread(entry[1])
  local shard = string.match(about, '^tb:{([^}]+)}:')
  -- What a dispatcher has read has a wake-up by now, so a visit at once would find nothing. A deadline has none.
  local _, team = notice(shard or about, now, shard and not unread and now or 0)
  if unread then
    redis.call('ZADD', key_active, 'XX', 0, shard or about)
  end
  if shard and team then -- other hosts of the team may use plain XADD, in any of its shards
    redis.call('ZADD', key_teams, 'LT', now - arg_idle_ms + arg_whole_ms, team)
  end
  redis.call('XDEL', key_notifications, entry[1])
end

-- Every host may append to the stream, by an id of its choice. After the last possible one nothing can be added, and
-- no host of any team could open a turn. XDEL removes an entry, not that memory.
local info = redis.pcall('XINFO', 'STREAM', key_notifications)
for i = 1, info.err and 0 or #info, 2 do
  if info[i] == 'last-generated-id' and info[i + 1] == LAST_ID then
    redis.call('DEL', key_notifications)
  end
end

redis.call('ZREMRANGEBYSCORE', key_noticed, '-inf', now - arg_quiet_ms)

local wanted = {}
for _, team in ipairs(args_only) do wanted[team] = true end
local page = #args_only > 0 and PAGE or most

-- The longest due come first, so those that a run has no time for are the first of the next one.
local function find(found, key, low, high)
  local from = 0
  repeat
    local places = redis.call('ZRANGE', key, low, high, 'BYSCORE', 'LIMIT', from, page)
    for _, place in ipairs(places) do
      if #found < most and (#args_only == 0 or wanted[string.match(place, '^[^.]+')]) then
        found[#found + 1] = place
      end
    end
    from = from + page
  until #places < page or #found >= most
end

local function due(key, period)
  local found = {}
  find(found, key, '-inf', now - tonumber(period))
  find(found, key, '(' .. now, '+inf')
  for _, place in ipairs(found) do
    redis.call('ZADD', key, 'XX', now, place)
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
