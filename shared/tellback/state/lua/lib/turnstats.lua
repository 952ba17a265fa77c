-- Outcomes of a shard's turns and deliveries: a hash of counters that only grow.
--   turn:EVENT, delivery:EVENT:CHANNEL, answer:BUCKET and fallback:BUCKET (time to the first answer), overdue:BUCKET
--   (time from the deadline to the fallback); a BUCKET is an upper bound in milliseconds, `inf`, or `sum`.
-- Channels come from outside: once the hash has STATS_CAP fields, a further channel is counted under `other`.
local STATS_CAP = 150
local BOUNDS = {100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000, 120000, 300000, 900000, 3600000}

-- pcall, here and below: a key of another type must cost no answer.
local function add(stats, field, number)
  redis.pcall('HINCRBY', stats, field, number)
end

local function count(stats, field)
  add(stats, field, 1)
end

local function count_delivery(stats, event, channel)
  local field = 'delivery:' .. event .. ':' .. channel
  local fields = redis.pcall('HLEN', stats)
  if type(fields) == 'number' and fields >= STATS_CAP and redis.call('HEXISTS', stats, field) == 0 then
    field = 'delivery:' .. event .. ':other'
  end
  count(stats, field)
end

local function observe(stats, name, ms)
  local bucket = 'inf'
  ms = math.max(0, ms) -- negative after the server's clock stepped back; a counter must not shrink
  for _, bound in ipairs(BOUNDS) do
    if ms <= bound then
      bucket = bound
      break
    end
  end
  count(stats, name .. ':' .. bucket)
  add(stats, name .. ':sum', ms)
end
