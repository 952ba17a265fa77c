-- A bank's facts in the order of their scores, their mean, and its days. Needs lib/score.
-- Decay keeps the order of scores on each side of 0.5: ln|score - 0.5| + LAMBDA * scored_at is constant while a score
-- fades. Each side is therefore a sorted set that only signals change, and the weekly decay never reranks. Exactly 0.5
-- stands above, at -inf.
-- constants: NEUTRAL, SIGNAL_TYPES, DECAY_PER_WEEK, WEEK_MS, DAY_MS
local LAMBDA = -math.log(DECAY_PER_WEEK) / WEEK_MS
local DAYS, EVICTION_BATCH = 400, 1000
-- A day: the mean of the facts after its last signal, how many facts, and its signals by type. Little-endian doubles.
local BANK_DAY = '<dd' .. string.rep('d', #SIGNAL_TYPES)
local BANK_DAY_BYTES = struct.size(BANK_DAY)

-- The rank of a fact whose score had this distance from 0.5 at this time; it grows with the distance.
local function rank_of(distance, at)
  if distance <= 0 then return '-inf' end
  return string.format('%.17g', math.log(distance) + LAMBDA * at)
end

-- Ranks facts by their scores. `facts` are the records by id.
local function rank_facts(above, below, ids, facts)
  local high, low, not_high, not_low = {}, {}, {}, {}
  for _, id in ipairs(ids) do
    local distance, at = facts[id][1] - NEUTRAL, facts[id][2]
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

-- The sum of all facts' distances from 0.5 as of `offset_at`, the latest time that the bank has seen. A fixed reference
-- time would let the terms grow without bound over the years. Subtracting a fact undoes its addition, even if its
-- time is ahead of a clock that stepped back (its weight is then above 1).
local function offset_sum(bank, now)
  local kept = redis.call('HMGET', bank, 'offset', 'offset_at')
  local last = tonumber(kept[2] or now)
  local sum = {at = math.max(now, last)}
  local function weight(at)
    return DECAY_PER_WEEK ^ math.max((sum.at - at) / WEEK_MS, -4000)
  end
  local total = tonumber(kept[1] or 0) * weight(last)
  function sum:add(fact) total = total + (fact[1] - NEUTRAL) * weight(fact[2]) end
  function sum:subtract(fact) total = total - (fact[1] - NEUTRAL) * weight(fact[2]) end
  function sum:mean(count) return NEUTRAL + total / math.max(count, 1) end
  function sum:store()
    redis.call('HSET', bank, 'offset', string.format('%.17g', total), 'offset_at', string.format('%.0f', sum.at))
  end
  return sum
end

-- Adds a batch's signals to its day (UTC); the oldest of more than 400 days is evicted.
local function note_day(key, now, mean, count, counts)
  local day = math.floor(now / DAY_MS)
  local packed = redis.call('HGET', key, day)
  local stored = unpacked(BANK_DAY, BANK_DAY_BYTES, packed or '')
  stored[1], stored[2] = mean, count
  for kind, more in ipairs(counts) do stored[2 + kind] = stored[2 + kind] + more end
  redis.call('HSET', key, day, struct.pack(BANK_DAY, unpack(stored)))
  if not packed and redis.call('HLEN', key) > DAYS then
    local days = redis.call('HKEYS', key)
    table.sort(days, function(a, b) return tonumber(a) < tonumber(b) end)
    redis.call('HDEL', key, unpack(days, 1, #days - DAYS))
  end
end
