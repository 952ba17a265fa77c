-- flags: allow-oom
-- Compare the server's clock with that of an observing host that never steps: add to the skew what the server's clock
-- has stepped since that host's last observation. Atomic: of many observers of the same step, one counts it. A
-- host's record holds its last observation: the offset (server's clock less its own), its own clock, the skew at that
-- time, the number of the observation, and 1 while the host is in doubt. Numbers order the observations because times
-- cannot: between a step back and its counting, the steady time is behind. Steps that others have counted since are
-- subtracted, so the second observer of a step finds none. A host without a record knows of a step back only that time
-- did not go back: it counts the step but for the time since the last observation, which a host with a record adds.
-- `standstills` keeps the last of those in which the steady clock stood after a step back: the time at which it stood,
-- the skew and the steady time after it, and the number of the observation that counted it. What was set meanwhile is
-- moved forward by these (see lib/steady), whatever steps follow.
-- keys: /clock
-- args:
--   host str: field of the observing host; '' if the round trip was too slow to measure, and nothing is compared
--   boot_ms int: the host's clock
--   server_ms int: the server's clock at that moment
--   fresh_ms int: longest time that may have passed since
--   step_ms int: smallest difference that counts as a step
--   gap_ms int: silence that counts as a gap
--   hosts int: how many are kept
--   stands_in flag: the host observes for workers that are silent. After UNOBSERVED_MS of silence, a host that has
--     observed nothing yet cannot tell a step from time. For as long it only takes part: a worker that can tell may
--     observe any moment
-- returns: {steady time, how long the clock was observed without a gap or a step, step that was counted}, or nil if the
--   measurement is too old or the clock has stepped since; measure again.
-- constants: UNOBSERVED_MS
-- @include clock
local KEPT_STANDSTILLS = 8 -- what was set in an older one is early by the time for which the clock stood
local host, boot, server = arg_host, tonumber(arg_boot_ms), tonumber(arg_server_ms)
local now = now_ms()
if host ~= '' and math.abs(now - server) > tonumber(arg_fresh_ms) then
  return false
end
local function int(number)
  return string.format('%.0f', number)
end

local known = redis.call('HMGET', key_clock, 'skew', 'last', 'since', host, 'most', 'reached', 'standstills')
local skew, last, since = tonumber(known[1] or 0), tonumber(known[2]), tonumber(known[3] or 0)
local offset, step, newest = server - boot, 0, host ~= ''
local was, reached = known[4] and cjson.decode(known[4]), last or tonumber(known[6] or 0) -- see lib/steady
local standstills, stood = known[7] and cjson.decode(known[7]) or {}, now - skew < reached
if was then
  newest = boot >= was[2] -- otherwise another process of that host observed after this measurement
  local moved = (offset - was[1]) - (skew - was[3])
  -- A slewed clock runs at most 0.05 % off, and so may the host's, which together is 1/1000 of the time: no step.
  if newest and math.abs(moved) > math.max(tonumber(arg_step_ms), (boot - was[2]) / 1000) then
    step, skew = moved, skew + moved
    for _, found in ipairs(standstills) do
      if moved < 0 and not stood and found[4] > was[4] then -- a host without a record counted it
        found[2], found[3] = found[2] + moved, found[3] - moved
      end
    end
    -- A host that observed since this one's last observation saw the clock either before or after the step, and nobody
    -- knows which. Delete its record: otherwise it would count the step again or undo it, and two hosts that disagree
    -- would do so forever.
    local hosts = redis.call('HGETALL', key_clock)
    for index = 1, #hosts, 2 do
      local other = string.sub(hosts[index], 1, 5) == 'host:' and cjson.decode(hosts[index + 1])
      if other and other[4] > was[4] then
        redis.call('HDEL', key_clock, hosts[index])
      end
    end
  end
elseif reached - (now - skew) > tonumber(arg_step_ms) then
  step = now - skew - reached
  skew = skew + step
end
local silent = host ~= '' and arg_stands_in == '1' and last and now - skew - last > UNOBSERVED_MS
local doubtful = silent and (not was or (was[5] and boot - was[2] < UNOBSERVED_MS))
local time, number = doubtful and last or now - skew, redis.call('HINCRBY', key_clock, 'observations', 1)
if step ~= 0 or (last and math.abs(time - last) > tonumber(arg_gap_ms)) then
  since = time
end
redis.call('HSET', key_clock, 'skew', int(skew), 'last', int(time), 'since', int(since),
  'most', int(math.max(skew, tonumber(known[5] or 0))))
if newest and not (doubtful and was) then
  local record = '[' .. int(offset) .. ',' .. int(boot) .. ',' .. int(skew) .. ',' .. number
    .. (doubtful and ',1]' or ']')
  redis.call('HSET', key_clock, host, record)
end
redis.call('HDEL', key_clock, 'reached')
if stood and step ~= 0 then
  table.insert(standstills, {reached, skew, time, number})
end
if #standstills > KEPT_STANDSTILLS then
  table.remove(standstills, 1)
end
if #standstills > 0 then
  redis.call('HSET', key_clock, 'standstills', cjson.encode(standstills))
end
local surplus = redis.call('HLEN', key_clock) - 5 - math.min(#standstills, 1) - tonumber(arg_hosts)
if surplus > 0 then -- evict the one that observed longest ago; each call adds at most one
  local hosts, oldest, at = redis.call('HGETALL', key_clock), nil, math.huge
  for index = 1, #hosts, 2 do
    local other = string.sub(hosts[index], 1, 5) == 'host:' and cjson.decode(hosts[index + 1])
    if other and other[4] < at then
      oldest, at = hosts[index], other[4]
    end
  end
  redis.call('HDEL', key_clock, oldest)
end
return {int(time), int(time - since), int(step)}
