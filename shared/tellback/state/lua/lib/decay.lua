-- A shard's pass of the weekly decay. Its scripts declare the key decay, which is the pass, and the arguments token, of
-- the pass's owner, and lease_ms.
-- The pass: `done` is the Monday, in milliseconds, of the last completed week (ISO 8601, UTC). `week`, `bank`, `step`,
-- `cursor`, `upto` and `server` are where a pass stands, `scores` and `written` its counters; `owner` holds it until
-- `until`. Any other week than `done` is due, not only a later one, because the server's clock may step.
-- @include clock
-- @include score
-- constants: NEUTRAL, WEEK_MS, DAY_MS

-- The Monday of this week, 00:00 UTC. The epoch was a Thursday, three days after a Monday.
local function monday(now)
  return math.floor((now + 3 * DAY_MS) / WEEK_MS) * WEEK_MS - 3 * DAY_MS
end

-- True if somebody holds the pass. An `until` further ahead than a lease can reach was written before the clock stepped
-- back, and holds nothing.
local function held(owner, until_ms, now)
  local left = tonumber(until_ms or 0) - now
  return owner and left > 0 and left <= tonumber(arg_lease_ms)
end

-- The week of the caller's pass, and now; nil if the caller no longer owns the pass or the week has changed.
local function owned_week()
  local now = now_ms()
  local pass = redis.call('HMGET', key_decay, 'owner', 'week')
  local week = monday(now)
  if pass[1] ~= arg_token or tonumber(pass[2]) ~= week then return nil end
  redis.call('HSET', key_decay, 'until', string.format('%.0f', now + arg_lease_ms))
  return week, now
end

-- Writes back decayed scores that were last written before this week; a second run therefore finds nothing to do.
-- `found` is field, record, field, record ...; a record begins with score and scored_at. Returns how many were written.
-- Ranks and sums stay: each belongs to a score at its time, and decay moves both together.
local function decay(key, found, week, now)
  local written = {}
  for i = 1, #found, 2 do
    local packed = found[i + 1]
    if #packed >= 16 then
      local score, scored_at = struct.unpack('<dd', packed)
      if scored_at < week and score ~= NEUTRAL then
        written[#written + 1] = found[i]
        written[#written + 1] = struct.pack('<dd', moved(score, scored_at, now, 0), now) .. string.sub(packed, 17)
      end
    end
  end
  if #written > 0 then redis.call('HSET', key, unpack(written)) end
  return #written / 2
end

local function count(scores, written)
  redis.call('HINCRBY', key_decay, 'scores', scores)
  redis.call('HINCRBY', key_decay, 'written', written)
end
