-- Summarize a bank: its size, the present distribution of its scores, and its most and least useful facts. Ranges of
-- the sorted sets give the counts, and only the records that are returned are read. Atomic: all figures belong to the
-- same moment.
-- keys: bank, +factscore, +factabove, +factbelow, +clusterver, +factinfo, +facttext
-- args:
--   top int: how many of the most and of the least useful facts to return
-- returns: {now, bank as a flat hash, number of facts, number of clusters, facts from 0 to 0.1, ... from 0.9 to 1, the
--   most useful as id, record, ..., the least useful likewise, factinfo as a flat hash, number of stored facts}.
-- @include clock
-- @include score
-- @include ranks

local now, top = now_ms(), tonumber(arg_top)
local spread = {}
for band = 1, 5 do
  local inner = band == 1 and '-inf' or rank_of((band - 1) / 10, now)
  local outer = band == 5 and '+inf' or '(' .. rank_of(band / 10, now)
  spread[5 + band] = redis.call('ZCOUNT', key_factabove, inner, outer)
end
for band = 1, 5 do
  local inner = band == 1 and '-inf' or '(' .. rank_of((band - 1) / 10, now)
  local outer = band == 5 and '+inf' or rank_of(band / 10, now)
  spread[6 - band] = redis.call('ZCOUNT', key_factbelow, inner, outer)
end

-- The first facts of one side and, if those are too few, the nearest of the other side.
local function first(side, other)
  local ids = redis.call('ZREVRANGE', side, 0, top - 1)
  if #ids < top then
    for _, id in ipairs(redis.call('ZRANGE', other, 0, top - #ids - 1)) do ids[#ids + 1] = id end
  end
  local found = {}
  if #ids > 0 then
    for i, packed in ipairs(redis.call('HMGET', key_factscore, unpack(ids))) do
      if packed then
        found[#found + 1] = ids[i]
        found[#found + 1] = packed
      end
    end
  end
  return found
end

return {now, redis.call('HGETALL', key_bank), redis.call('HLEN', key_factscore), redis.call('ZCARD', key_clusterver),
  spread, first(key_factabove, key_factbelow), first(key_factbelow, key_factabove), redis.call('HGETALL', key_factinfo),
  redis.call('HLEN', key_facttext)}
