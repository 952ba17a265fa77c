-- Return scores of facts for a query: from the best matching cluster that has a score of the fact, else the fact's
-- global score. A stored 0.5 is a score, not an absence. Atomic: the clusters read are those that were matched.
-- keys: bank, +factscore, *clusters
-- args:
--   bank_id str: of the bank when the clusters were matched
--   stamp str: of the bank then, or ''
--   version int: of the bank then; -1 for any, without clusters
--   most int: fields to read from clusters, not counting the last one
--   *fact_ids str
-- returns: 'stale', or {now, how many of the clusters were read, for each fact its record there or nil, and once all
--   clusters were read the global record of each fact without one}. Else read the other clusters for these facts.
-- @include clock

local version = tonumber(arg_version)
if version >= 0 then
  local bank = redis.call('HMGET', key_bank, 'id', 'version', 'stamp')
  local same = (bank[1] or '') == arg_bank_id and tonumber(bank[2] or 0) == version
  if not same or (bank[3] or '') ~= arg_stamp then return 'stale' end
end

local open, left, found = {}, 0, {}
for _, fact_id in ipairs(args_fact_ids) do
  if not open[fact_id] then
    open[fact_id], left = true, left + 1
  end
end
local function take(fact_id, packed)
  if packed and open[fact_id] then
    found[fact_id], open[fact_id], left = packed, nil, left - 1
  end
end
local function still_open()
  local names = {}
  for _, fact_id in ipairs(args_fact_ids) do
    if not found[fact_id] then names[#names + 1] = fact_id end
  end
  return names
end

local done, fields = 0, 0
for k, cluster in ipairs(keys_clusters) do
  if left == 0 or fields > tonumber(arg_most) then break end
  local size = redis.call('HLEN', cluster)
  done, fields = k, fields + math.min(size, left)
  -- Most clusters have scores of a few facts: all of them are read sooner than a thousand names are looked up.
  if size < left then
    local all = redis.call('HGETALL', cluster)
    for i = 1, #all, 2 do take(all[i], all[i + 1]) end
  else
    local names = still_open()
    for i, packed in ipairs(redis.call('HMGET', cluster, unpack(names))) do take(names[i], packed) end
  end
end

local records, of_bank = {}, {}
for i, fact_id in ipairs(args_fact_ids) do records[i] = found[fact_id] or false end
if left > 0 and done == #keys_clusters then of_bank = redis.call('HMGET', key_factscore, unpack(still_open())) end
return {now_ms(), done, records, of_bank}
