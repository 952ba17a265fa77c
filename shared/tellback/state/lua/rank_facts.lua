-- A page of a bank's facts, the least useful first. Atomic, so that each record is the one that was ranked.
--
-- KEYS: 1 facts, 2 above, 3 below
-- ARGV: 1 how many to pass over, 2 how many
-- Returns {now, how many there were, id, record, ...}; fewer than asked for where there are no more.
-- @include clock

local start, want = tonumber(ARGV[1]), tonumber(ARGV[2])
local low = redis.call('ZCARD', KEYS[3])
local ids = {}
if start < low then ids = redis.call('ZREVRANGE', KEYS[3], start, start + want - 1) end
if #ids < want then
  local from = math.max(start - low, 0)
  for _, id in ipairs(redis.call('ZRANGE', KEYS[2], from, from + want - #ids - 1)) do ids[#ids + 1] = id end
end
local reply = {now_ms(), #ids}
if #ids > 0 then
  for i, packed in ipairs(redis.call('HMGET', KEYS[1], unpack(ids))) do
    if packed then
      reply[#reply + 1] = ids[i]
      reply[#reply + 1] = packed
    end
  end
end
return reply
