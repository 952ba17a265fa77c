-- Look for what waits in one shard of a team, in one call, because the scheduler visits thousands of teams. It reads
-- only: each duty checks again in the script that decides.
-- keys: /timers, /due, /turns, /running, /pools, /banks, /clock, *streams, *leases, *wakeups
-- args:
--   longest_lease int: in milliseconds
--   observed_ms int: since the last observation of the clock; after more, one is due
-- returns: those of 'clock', 'timers', 'turns', 'outbox', 'jobs' and 'banks' for which there may be work, 'waits' if
--   there will be some, 'keys' if one of the keys holds another type, and the number of each stream that needs a
--   wake-up.
-- constants: WAKEUP_LIFETIME
-- @include clock
-- @include held
local found, waits, wrong = {}, false, false

-- True if there is such a key. One of another type must not hide what else waits, here or in another team.
local function has(key, kind)
  local is = redis.call('TYPE', key).ok
  wrong = wrong or (is ~= 'none' and is ~= kind)
  return is == kind
end

-- Most keys of most shards are absent: one call then replaces one for each.
local function any(keys)
  return redis.call('EXISTS', unpack(keys)) > 0
end

local now, seen = now_ms(), {}
if has(key_clock, 'hash') then seen = redis.call('HMGET', key_clock, 'most', 'skew', 'last') end
local skew = tonumber(seen[2] or 0)
if not seen[3] or math.abs(now - skew - seen[3]) > tonumber(arg_observed_ms) then found[#found + 1] = 'clock' end
if any({ key_timers, key_due, key_turns, key_running, key_pools, key_banks }) then
  if has(key_timers, 'zset') then
    local timer = redis.call('ZRANGE', key_timers, 0, 0, 'WITHSCORES')
    waits = true
    -- As `steady.onward_now` counts: the time as if the server's clock had never been set back.
    if tonumber(timer[2]) <= now + tonumber(seen[1] or 0) - skew then found[#found + 1] = 'timers' end
  end
  if has(key_due, 'zset') then found[#found + 1] = 'turns' end
  if has(key_turns, 'zset') then found[#found + 1] = 'outbox' end
  local running, pools = has(key_running, 'zset'), has(key_pools, 'zset')
  if running or pools then found[#found + 1] = 'jobs' end
  if has(key_banks, 'zset') then found[#found + 1] = 'banks' end
end

local any_lease = any(keys_leases)
for i, stream in ipairs(keys_streams) do
  local length = redis.pcall('XLEN', stream)
  if type(length) == 'table' then length, wrong = 0, true end
  local leased = any_lease and is_held(keys_leases[i], tonumber(arg_longest_lease))
  if length > 0 or leased then
    waits = true
    if length > 0 and not leased and not is_held(keys_wakeups[i], WAKEUP_LIFETIME) then
      found[#found + 1] = i - 1
    end
  end
end
if waits then found[#found + 1] = 'waits' end
if wrong then found[#found + 1] = 'keys' end
return found
