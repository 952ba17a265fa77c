-- A day's counters of guidance in a shard, `WHAT:NAME:MEASURE` or `WHAT:MEASURE`. Names come from outside, so their
-- number is capped: of each WHAT a further one is counted under the name `other`. Service fields: `since` (the first
-- count), `names:WHAT` (how many names) and `name:WHAT:NAME` (a name that counts under its own).
-- @include clock
local NAMES = 200
local DAYS_35 = 3024000000

local function tally(key, field, by)
  if redis.call('HINCRBY', key, field, by) ~= tonumber(by) then
    return
  end
  if redis.call('HSETNX', key, 'since', now_ms()) == 1 then
    redis.call('PEXPIRE', key, DAYS_35)
  end
  local what, name, measure = string.match(field, '^(%w+):([^:]*):(.*)$')
  if not what or name == 'other' or redis.call('HSETNX', key, 'name:' .. what .. ':' .. name, 1) == 0 then
    return
  end
  if redis.call('HINCRBY', key, 'names:' .. what, 1) > NAMES then
    redis.call('HINCRBY', key, 'names:' .. what, -1)
    redis.call('HDEL', key, 'name:' .. what .. ':' .. name, field)
    redis.call('HINCRBY', key, what .. ':other:' .. measure, by)
  end
end
