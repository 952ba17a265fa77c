-- Ids of events that were applied, in two generations of 50,000.
local SEEN_LIFE = 604800000
local GENERATION = 50000

-- Whether one of these ids, of which there is at least one, was applied before.
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

-- Remembers ids, of which there is at least one.
local function see(current, before, ...)
  if redis.call('SCARD', current) + select('#', ...) > GENERATION then
    redis.call('RENAME', current, before)
  end
  redis.call('SADD', current, ...)
  redis.call('PEXPIRE', current, SEEN_LIFE)
end
