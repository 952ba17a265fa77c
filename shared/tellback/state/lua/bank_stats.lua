-- A bank in figures: what it holds, how its facts' scores are spread now, the first and the last of them. It asks the
-- sorted sets and reads no more records than it returns. Atomic, so that the figures belong together.
--
-- KEYS: 1 bank, 2 facts, 3 above, 4 below, 5 ctxver, 6 mem, 7 memtext
-- ARGV: 1 how many of the most and of the least useful facts
-- Returns {now, bank as a flat hash, how many facts, how many contexts,
--          facts from 0 to 0.1, ... from 0.9 to 1, the most useful as id, record ..., the least useful likewise,
--          what the facts that it holds were begun with as a flat hash, how many they are}.
-- @include clock
-- @include score
-- @include ranks

local now, top = now_ms(), tonumber(ARGV[1])
local spread = {}
for band = 1, 5 do
  local inner = band == 1 and '-inf' or rank_of((band - 1) / 10, now)
  local outer = band == 5 and '+inf' or '(' .. rank_of(band / 10, now)
  spread[5 + band] = redis.call('ZCOUNT', KEYS[3], inner, outer)
end
for band = 1, 5 do
  local inner = band == 1 and '-inf' or '(' .. rank_of((band - 1) / 10, now)
  local outer = band == 5 and '+inf' or rank_of(band / 10, now)
  spread[6 - band] = redis.call('ZCOUNT', KEYS[4], inner, outer)
end

-- The first of one side and, where they are not enough, those of the other that come next.
local function first(side, other)
  local ids = redis.call('ZREVRANGE', side, 0, top - 1)
  if #ids < top then
    for _, id in ipairs(redis.call('ZRANGE', other, 0, top - #ids - 1)) do ids[#ids + 1] = id end
  end
  local found = {}
  if #ids > 0 then
    for i, packed in ipairs(redis.call('HMGET', KEYS[2], unpack(ids))) do
      if packed then
        found[#found + 1] = ids[i]
        found[#found + 1] = packed
      end
    end
  end
  return found
end

return {now, redis.call('HGETALL', KEYS[1]), redis.call('HLEN', KEYS[2]), redis.call('ZCARD', KEYS[5]),
  spread, first(KEYS[3], KEYS[4]), first(KEYS[4], KEYS[3]), redis.call('HGETALL', KEYS[6]), redis.call('HLEN', KEYS[7])}
