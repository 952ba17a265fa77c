-- Ids that were applied, in two generations of 50,000: at least the last 50,000 are known, for at most seven days. A
-- writer that numbers its events needs no ids; see append_events.
-- constants: SEEN_LIFETIME
local GENERATION = 50000

-- True if one of these ids was applied before. Needs at least one id.
local function any_seen(current, before, ...)
  for _, key in ipairs({current, before}) do
    for _, seen in ipairs(redis.call('SMISMEMBER', key, ...)) do
      if seen == 1 then
        return true
      end
    end
  end
  return false
end

-- Marks ids as applied. Needs at least one id.
local function mark_seen(current, before, ...)
  if redis.call('SCARD', current) + select('#', ...) > GENERATION then
    redis.call('RENAME', current, before)
  end
  redis.call('SADD', current, ...)
  redis.call('PEXPIRE', current, SEEN_LIFETIME)
end
