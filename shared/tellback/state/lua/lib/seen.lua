-- Ids of events that were applied, in two generations of 50,000.
local SEEN_LIFE = 604800000
local GENERATION = 50000

-- Remembers ids, of which there is at least one.
local function see(current, before, ...)
  if redis.call('SCARD', current) + select('#', ...) > GENERATION then
    redis.call('RENAME', current, before)
  end
  redis.call('SADD', current, ...)
  redis.call('PEXPIRE', current, SEEN_LIFE)
end
