-- Return a page of a bank's facts, the least useful first. Atomic: each record is the one that was ranked.
-- keys: factscore, +factabove, +factbelow
-- args:
--   start int: how many to skip
--   limit int: how many to return
-- returns: {now, number of facts found, id, record, ...}.
-- @include clock

local start, want = tonumber(arg_start), tonumber(arg_limit)
local low = redis.call('ZCARD', key_factbelow)
local ids = {}
if start < low then ids = redis.call('ZREVRANGE', key_factbelow, start, start + want - 1) end
if #ids < want then
  local from = math.max(start - low, 0)
  for _, id in ipairs(redis.call('ZRANGE', key_factabove, from, from + want - #ids - 1)) do ids[#ids + 1] = id end
end
local reply = {now_ms(), #ids}
if #ids > 0 then
  for i, packed in ipairs(redis.call('HMGET', key_factscore, unpack(ids))) do
    if packed then
      reply[#reply + 1] = ids[i]
      reply[#reply + 1] = packed
    end
  end
end
return reply
