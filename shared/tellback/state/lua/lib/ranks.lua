-- A bank's facts in the order of their scores, their mean, and its days. After score.lua.
-- Decay keeps the order of scores on each side of 0.5: ln|score - 0.5| + LAMBDA * scored_at stands still while a score
-- fades. So each side is a sorted set that only signals change. Exactly 0.5 stands above, at -inf.
local LAMBDA = -math.log(0.95) / 604800000
local DAY, DAYS, EVICTED_AT_ONCE = 86400000, 400, 1000
-- A day: the mean of the facts after its last signal, how many facts, and its signals by type. Little-endian doubles.
local BANK_DAY = '<dddddd'

-- What a fact with this distance from 0.5 at this time ranks at; from the smaller distances to the greater.
local function rank_of(distance, at)
  if distance <= 0 then return '-inf' end
  return string.format('%.17g', math.log(distance) + LAMBDA * at)
end

-- Puts facts where their scores belong. `facts` are the records by id.
local function rank_facts(above, below, ids, facts)
  local high, low, not_high, not_low = {}, {}, {}, {}
  for _, id in ipairs(ids) do
    local distance, at = facts[id][1] - 0.5, facts[id][2]
    local side, other = high, not_low
    if distance < 0 then side, other = low, not_high end
    side[#side + 1] = distance == 0 and '-inf' or math.log(math.abs(distance)) + LAMBDA * at
    side[#side + 1] = id
    other[#other + 1] = id
  end
  if #high > 0 then
    redis.call('ZADD', above, unpack(high))
    redis.call('ZREM', below, unpack(not_low))
  end
  if #low > 0 then
    redis.call('ZADD', below, unpack(low))
    redis.call('ZREM', above, unpack(not_high))
  end
end

-- The sum of all facts' distances from 0.5, as they are at `offset_at`, the latest time that the bank has seen: so it
-- stays a number of the facts' own size, however many years pass. A fact is taken out as it was put in, also one whose
-- time lies ahead of a clock that went back (its weight is then above 1).
local function offset_sum(bank, now)
  local kept = redis.call('HMGET', bank, 'offset', 'offset_at')
  local last = tonumber(kept[2] or now)
  local sum = {at = math.max(now, last)}
  local function weight(at)
    return 0.95 ^ math.max((sum.at - at) / 604800000, -4000)
  end
  local total = tonumber(kept[1] or 0) * weight(last)
  function sum:add(fact) total = total + (fact[1] - 0.5) * weight(fact[2]) end
  function sum:take(fact) total = total - (fact[1] - 0.5) * weight(fact[2]) end
  function sum:mean(count) return 0.5 + total / math.max(count, 1) end
  function sum:keep()
    redis.call('HSET', bank, 'offset', string.format('%.17g', total), 'offset_at', string.format('%.0f', sum.at))
  end
  return sum
end

-- Adds a batch's signals to its day (UTC); the oldest of more than 400 days goes.
local function note_day(key, now, mean, count, counts)
  local day = math.floor(now / DAY)
  local packed = redis.call('HGET', key, day)
  local was = packed and {struct.unpack(BANK_DAY, packed)} or {0, 0, 0, 0, 0, 0}
  redis.call('HSET', key, day, struct.pack(BANK_DAY, mean, count,
    was[3] + counts[1], was[4] + counts[2], was[5] + counts[3], was[6] + counts[4]))
  if not packed and redis.call('HLEN', key) > DAYS then
    local days = redis.call('HKEYS', key)
    table.sort(days, function(a, b) return tonumber(a) < tonumber(b) end)
    redis.call('HDEL', key, unpack(days, 1, #days - DAYS))
  end
end
