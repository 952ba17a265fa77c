-- A shard's counters of guidance, `WHAT:NAME:MEASURE` or `WHAT:MEASURE`. Names come from outside, so their number is
-- capped: a further one is counted under the name `other`.
local TALLY_FIELDS = 2000

local function tally(key, field, by)
  if redis.call('HINCRBY', key, field, by) ~= tonumber(by) or redis.call('HLEN', key) <= TALLY_FIELDS then
    return
  end
  local other, named = string.gsub(field, '^(%w+):[^:]*:', '%1:other:')
  if named > 0 and other ~= field then
    redis.call('HDEL', key, field)
    redis.call('HINCRBY', key, other, by)
  end
end
