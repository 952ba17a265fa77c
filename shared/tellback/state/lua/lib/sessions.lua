-- The sessions of a shard by their last activity, the newest 10,000, and of each what listings say.
-- constants: SESSIONS_LIFETIME, ACTIVITY_LIFETIME
local SESSIONS = 10000

local function note_session(sessions, at, name)
  local added = redis.pcall('ZADD', sessions, 'GT', at, name)
  if type(added) == 'table' then return end -- another type: costs no event
  if added > 0 then redis.call('ZREMRANGEBYRANK', sessions, 0, -(SESSIONS + 1)) end
  redis.call('PEXPIRE', sessions, SESSIONS_LIFETIME)
end

-- `at` is the time of the newest event, `calls` and `nudges` are added, the rest are field and value of what is newest.
local function note_activity(sessions, activity, name, at, calls, nudges, ...)
  note_session(sessions, at, name)
  -- pcall: a key of another type, or a count that is no number, must cost no event
  redis.pcall('HINCRBY', activity, 'calls', calls)
  if nudges > 0 then redis.pcall('HINCRBY', activity, 'nudges', nudges) end
  if select('#', ...) > 0 then
    redis.pcall('HSET', activity, ...)
  end
  redis.call('PEXPIRE', activity, ACTIVITY_LIFETIME)
end
