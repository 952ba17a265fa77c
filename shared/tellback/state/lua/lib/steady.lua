-- The shard's steady clock: the server's, less the steps that observers have counted (see observe_clock). Deadlines
-- and leases stored as times use this clock; stamps that people read do not. The key clock is the hash of the steps.
-- @include clock
-- constants: UNOBSERVED_MS

-- The steady time at `now`, that of the last observation or 0, and true if it stands still. It is never before the last
-- observation: in the seconds until a backward step is observed it stands still, and times set then are off by at most
-- these seconds.
-- Before the first observation, `reached` keeps the newest time that a script has used. It stands still in the same
-- way, and the first observer counts a step back from there. Without it, whoever opened a turn would wait for as long
-- as the step.
-- The steps are read once: observe_clock alone changes them, and does not use this file.
local steps
local function steady(now)
  steps = steps or redis.call('HMGET', key_clock, 'skew', 'last', 'reached')
  local known = steps
  if known[2] then
    local last = tonumber(known[2])
    local clock = now - tonumber(known[1])
    return math.max(clock, last), last, clock < last
  end
  local reached = tonumber(known[3] or 0)
  if now > reached then
    steps[3] = string.format('%.0f', now)
    redis.call('HSET', key_clock, 'reached', steps[3])
  end
  return math.max(now, reached), 0, now < reached
end

-- The steady time at which the server's clock showed `server`, while the steady one stood still at `time` (see
-- observe_clock): the same, if that standstill is not counted yet. Two steps in one standstill cannot be distinguished,
-- so it is never after the observation that counted them.
local function since_standstill(time, server)
  local standstills = redis.call('HGET', key_clock, 'standstills')
  for _, found in ipairs(standstills and cjson.decode(standstills) or {}) do
    if found[1] == time then
      return math.max(time, math.min(server - found[2], found[3]))
    end
  end
  return time
end

-- A steady time that has certainly passed: that of the last observation. Expiry is decided by this one, because the
-- server's clock may have stepped a moment ago. Without any observation, the server's clock decides.
local function observed()
  local last = redis.call('HGET', key_clock, 'last')
  return tonumber(last or now_ms())
end

-- True if the clock is further ahead of the last observation than that: it has stepped forward, or nobody observes.
-- Only an observation can tell the two apart, and until then no lease may end and none begin.
local function unobserved(clock, last)
  return last > 0 and clock - last > UNOBSERVED_MS
end

-- The time from which something may be taken that is due at once. After a forward step that nobody has observed yet,
-- `steady` is ahead by the step, and an answer would wait that long for a transport.
local function due_now(now)
  local clock, last = steady(now)
  return last > 0 and math.min(clock, last + UNOBSERVED_MS) or clock
end

-- The server's clock as if it had never stepped back. Ids of streams are similar, but stand still until the clock has
-- caught up; this one continues. Guidance uses it because it compares times with those at which events arrived.
local function onward(now)
  local known = redis.call('HMGET', key_clock, 'skew', 'most')
  return now + tonumber(known[2] or 0) - tonumber(known[1] or 0)
end
