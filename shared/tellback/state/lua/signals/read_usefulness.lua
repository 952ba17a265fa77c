-- Return scores of facts for a query: from the best matching cluster that has a score of the fact, else the fact's
-- global score. A stored 0.5 is a score, not an absence. Atomic: the clusters read are those that were matched.
-- keys: bank, factscore, *clusters
-- args:
--   bank_id str: of the bank when the clusters were matched
--   version int: of the bank then; -1 for any, without clusters
--   *fact_ids str
-- returns: 'stale', or {now, then for each fact {} or {1 for a cluster's score, else 0, packed record}}.
-- @include clock

local version = tonumber(arg_version)
if version >= 0 then
  local bank = redis.call('HMGET', key_bank, 'id', 'version')
  if (bank[1] or '') ~= arg_bank_id or tonumber(bank[2] or 0) ~= version then return 'stale' end
end

local open, found = {}, {}
for i = 1, #args_fact_ids do
  open[i], found[i] = i, {}
end
for k = 1, #keys_clusters + 1 do
  if #open == 0 then break end
  local of_cluster = k <= #keys_clusters
  local names, left = {}, {}
  for i, at in ipairs(open) do names[i] = args_fact_ids[at] end
  for i, packed in ipairs(redis.call('HMGET', of_cluster and keys_clusters[k] or key_factscore, unpack(names))) do
    if packed then
      found[open[i]] = {of_cluster and 1 or 0, packed}
    else
      left[#left + 1] = open[i]
    end
  end
  open = left
end
return {now_ms(), unpack(found)}
