-- For the scripts of the weekly decay. KEYS[1] is the shard's pass; ARGV[1] who works at it, ARGV[2] for how long at
-- most, in milliseconds, without another word.
-- The pass: `done` is the Monday, in milliseconds, of the week (ISO 8601, UTC) that is done, and the one before last
-- need not be the week before: the server's clock may step. `week`, `bank`, `step`, `cursor` and `server` tell where a
-- pass stands, `upto`, `scores` and `written` what else it knows; `owner` holds it until `until`.
-- @include clock
-- @include score
local WEEK, DAY = 604800000, 86400000

-- The Monday of this moment, 00:00 UTC: the first of January 1970 was a Thursday.
local function monday(now)
  return math.floor((now + 3 * DAY) / WEEK) * WEEK - 3 * DAY
end

-- Whether somebody holds the pass. A time further ahead than anyone may ask for was written by a clock that has gone
-- back since, and holds nothing.
local function held(owner, until_ms, now)
  local left = tonumber(until_ms or 0) - now
  return owner and left > 0 and left <= tonumber(ARGV[2])
end

-- The week that ARGV[1] works at, and now; nil where the pass is no longer its own, or the week has changed.
local function working()
  local now = now_ms()
  local pass = redis.call('HMGET', KEYS[1], 'owner', 'week')
  local week = monday(now)
  if pass[1] ~= ARGV[1] or tonumber(pass[2]) ~= week then return nil end
  redis.call('HSET', KEYS[1], 'until', string.format('%.0f', now + ARGV[2]))
  return week, now
end

-- Writes decayed scores back, where nobody has since the week began: so a second run finds nothing to do. `found` is
-- field, record, field, record ...; a record begins with score and scored_at. Returns how many were written. Ranks and
-- sums stay as they are: they belong to a score and its time together.
local function decay(key, found, week, now)
  local written = {}
  for i = 1, #found, 2 do
    local packed = found[i + 1]
    if #packed >= 16 then
      local score, scored_at = struct.unpack('<dd', packed)
      if scored_at < week and score ~= 0.5 then
        written[#written + 1] = found[i]
        written[#written + 1] = struct.pack('<dd', moved(score, scored_at, now, 0), now) .. string.sub(packed, 17)
      end
    end
  end
  if #written > 0 then redis.call('HSET', key, unpack(written)) end
  return #written / 2
end

local function count(scores, written)
  redis.call('HINCRBY', KEYS[1], 'scores', scores)
  redis.call('HINCRBY', KEYS[1], 'written', written)
end
