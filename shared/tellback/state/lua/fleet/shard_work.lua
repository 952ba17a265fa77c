-- Look for what waits in one shard of a team, in one call, because the scheduler visits thousands of teams. It reads
-- only: each duty checks again in the script that decides.
-- keys: timers, due, turns, running, pools, banks, clock, *streams, *leases, *wakeups
-- args:
--   longest_lease int: in milliseconds
--   observed_ms int: since the last observation of the clock; after more, one is due
-- returns: those of 'clock', 'timers', 'turns', 'outbox', 'jobs' and 'banks' for which there may be work, 'waits' if
--   there will be some, 'wrong' for each stream whose key holds another type, and the number of each stream that needs
--   a wake-up.
-- constants: WAKEUP_LIFETIME
-- @include clock
-- @include held
local found, waits = {}, false
local now, seen = now_ms(), redis.call('HMGET', key_clock, 'most', 'skew', 'last')
local skew = tonumber(seen[2] or 0)
if not seen[3] or math.abs(now - skew - seen[3]) > tonumber(arg_observed_ms) then found[#found + 1] = 'clock' end
local timer = redis.call('ZRANGE', key_timers, 0, 0, 'WITHSCORES')
if timer[2] then
  waits = true
  -- As `steady.onward_now` counts: the time as if the server's clock had never been set back.
  if tonumber(timer[2]) <= now + tonumber(seen[1] or 0) - skew then found[#found + 1] = 'timers' end
end
if redis.call('EXISTS', key_due) == 1 then found[#found + 1] = 'turns' end
if redis.call('EXISTS', key_turns) == 1 then found[#found + 1] = 'outbox' end
if redis.call('EXISTS', key_running, key_pools) > 0 then found[#found + 1] = 'jobs' end
if redis.call('EXISTS', key_banks) == 1 then found[#found + 1] = 'banks' end

for i, stream in ipairs(keys_streams) do
  local length = redis.pcall('XLEN', stream) -- an error of somebody else's key must not hide the other streams
  local leased = is_held(keys_leases[i], tonumber(arg_longest_lease))
  if type(length) == 'table' then
    found[#found + 1] = 'wrong'
  elseif length > 0 or leased then
    waits = true
    if length > 0 and not leased and not is_held(keys_wakeups[i], WAKEUP_LIFETIME) then
      found[#found + 1] = i - 1
    end
  end
end
if waits then found[#found + 1] = 'waits' end
return found
