-- flags: allow-oom
-- Apply whole batches of signals of one bank, in order. Atomic: no signal is lost or counts twice, two workers cannot
-- begin the same query cluster side by side, and the entries leave the intake with their effect.
-- keys: intake, +lease, bank, +factscore, +factrecent, +clustervec, +clustertext, +clusterver, +clusterstamps,
--   +clusterrecent, +sigseen, +sigseen_old, +siglog, +factabove, +factbelow, +bankdays, /banks, /sigstats, *clusters,
--   *hists
-- args:
--   fence int
--   entries text: JSON array of the ids that leave the stream
--   plan bytes: MessagePack of {bank, bank_id (of the bank that was read, or ''), version and stamp (of that bank),
--     new_stamp, new_bank_id, model, dimension, threshold, weights (for a bank that begins), lease_ms (renews the
--     lease), facts_cap, cluster_cap, clusters = {{slot, is_new, text}}, items = {{signal_id, fact_id, kind 1..4,
--     change, cluster from 1, session from 1 or 0 for none, log = JSON after "at"}}}; `clusters` has a key for each,
--     `hists` one for each session
--   *vectors bytes: one for each new cluster
-- returns: 'ok' | 'fenced' | 'stale': the bank has another version, or a signal was applied before; load again.
-- @include intake
-- @include history
-- @include seen
-- @include score
-- @include ranks
-- @include stamps
-- constants: SIGNAL_TYPES, SIGLOG_LIFETIME

if fenced() then return 'fenced' end
local plan = cmsgpack.unpack(arg_plan)
local bank = redis.call('HMGET', key_bank, 'id', 'version', 'stamp')
local same = (bank[1] or '') == plan.bank_id and tonumber(bank[2] or 0) == plan.version
if not same or (bank[3] or '') ~= plan.stamp then return 'stale' end

local items, now = plan.items, now_ms()

local ids = {}
for i, item in ipairs(items) do ids[i] = item[1] end
if #ids > 0 and any_seen(key_sigseen, key_sigseen_old, unpack(ids)) then return 'stale' end
redis.call('ZCARD', key_banks) -- first: if a key that others share has another type, nothing is done
expect_type('hash', key_factscore, key_clustervec, key_clustertext, key_bankdays, unpack(keys_clusters))
expect_type('zset', key_factrecent, key_factabove, key_factbelow, key_clusterver, key_clusterstamps, key_clusterrecent)
expect_type('set', key_sigseen, key_sigseen_old)
expect_type('list', key_siglog)
ack()
redis.call('PEXPIRE', key_lease, plan.lease_ms)
if #items == 0 then return 'ok' end

if not bank[1] then
  redis.call('HSET', key_bank, 'id', plan.new_bank_id, 'model', plan.model, 'dimension', plan.dimension,
    'threshold', plan.threshold, 'weights', plan.weights, 'created_at', now)
end

-- Each new cluster gets a version of its own: load_bank pages by version.
local version, former = plan.version, {}
local vectors, texts, versions, touched = {}, {}, {}, {}
for i, cluster in ipairs(plan.clusters) do
  local slot = cluster[1]
  if cluster[2] then
    version = version + 1
    local n = version - plan.version
    former[n] = keys_clusters[i]
    vectors[2 * n - 1], vectors[2 * n] = slot, args_vectors[n]
    texts[2 * n - 1], texts[2 * n] = slot, cluster[3]
    versions[2 * n - 1], versions[2 * n] = version, slot
  end
  touched[2 * i - 1], touched[2 * i] = now, slot
end
if version > plan.version then
  redis.call('DEL', unpack(former))
  redis.call('HSET', key_clustervec, unpack(vectors))
  redis.call('HSET', key_clustertext, unpack(texts))
  redis.call('ZADD', key_clusterver, unpack(versions))
  add_stamp(key_bank, key_clusterstamps, version, plan.new_stamp)
end
redis.call('ZADD', key_clusterrecent, unpack(touched))

-- Read and write each score once, however many signals move it.
local facts, order, sum = {}, {}, offset_sum(key_bank, now)
for _, item in ipairs(items) do
  if not facts[item[2]] then
    facts[item[2]] = true
    order[#order + 1] = item[2]
  end
end
for i, packed in ipairs(redis.call('HMGET', key_factscore, unpack(order))) do
  facts[order[i]] = read_fact(packed, now)
  if packed then sum:subtract(facts[order[i]]) end
end
local clusters, asked = {}, {}
for i = 1, #plan.clusters do clusters[i], asked[i] = {}, {} end
for _, item in ipairs(items) do
  local scores, wanted = clusters[item[5]], asked[item[5]]
  if not scores[item[2]] then
    scores[item[2]] = true
    wanted[#wanted + 1] = item[2]
  end
end
for i, wanted in ipairs(asked) do
  local found = #wanted > 0 and redis.call('HMGET', keys_clusters[i], unpack(wanted)) or {}
  for n, packed in ipairs(found) do clusters[i][wanted[n]] = read_cluster_score(packed, now) end
end

local counts, logs, histories = {}, {}, {}
for kind = 1, #SIGNAL_TYPES do counts[kind] = 0 end
local logged = string.format('{"kind":"signal","at":%.0f,"score":', now)
for i, item in ipairs(items) do
  local kind, change = item[3], item[4]
  local fact, score = facts[item[2]], clusters[item[5]][item[2]]
  fact[1], fact[2] = moved(fact[1], fact[2], now, change), math.max(fact[2], now)
  fact[3], fact[4 + kind] = math.max(fact[3], now), fact[4 + kind] + 1
  score[1], score[2] = moved(score[1], score[2], now, change), math.max(score[2], now)
  score[3], score[4] = math.max(score[3], now), score[4] + 1
  counts[kind] = counts[kind] + 1
  logs[i] = logged .. string.format('%.6f,', fact[1]) .. item[7]
  if item[6] > 0 then
    histories[item[6]] = histories[item[6]] or {}
    table.insert(histories[item[6]], logs[i])
  end
end

local fields, recent = {}, {}
for i, fact_id in ipairs(order) do
  local fact = facts[fact_id]
  fields[2 * i - 1], fields[2 * i] = fact_id, struct.pack(FACT, unpack(fact))
  recent[2 * i - 1], recent[2 * i] = fact[3], fact_id
  sum:add(fact)
end
redis.call('HSET', key_factscore, unpack(fields))
redis.call('ZADD', key_factrecent, unpack(recent))
rank_facts(key_factabove, key_factbelow, order, facts)

-- If the cap was lowered, each call evicts at most EVICTION_BATCH of the surplus and stays short.
local over = math.min(redis.call('ZCARD', key_factrecent) - plan.facts_cap, EVICTION_BATCH)
if over > 0 then
  local evicted = {}
  for i, name in ipairs(redis.call('ZPOPMIN', key_factrecent, over)) do
    if i % 2 == 1 then evicted[#evicted + 1] = name end
  end
  for _, packed in ipairs(redis.call('HMGET', key_factscore, unpack(evicted))) do
    if packed then sum:subtract(read_fact(packed, now)) end
  end
  redis.call('HDEL', key_factscore, unpack(evicted))
  redis.call('ZREM', key_factabove, unpack(evicted))
  redis.call('ZREM', key_factbelow, unpack(evicted))
end
sum:store()
local count = redis.call('HLEN', key_factscore)
note_day(key_bankdays, now, sum:mean(count), count, counts)

-- Above its cap a cluster loses the least recently signalled of a random sample of its facts. Reading all of them would
-- take a millisecond, in each of up to 500 clusters that may reach their cap together. HSCAN from a cursor that the
-- clock picks costs a third of HRANDFIELD, and neighbours in a hash table are just as random.
local micros = redis.call('TIME')[2]
local function sample(key, size)
  local found = redis.call('HSCAN', key, micros, 'COUNT', size)[2]
  if #found < 2 * size then found = redis.call('HSCAN', key, 0, 'COUNT', size)[2] end -- the table ended
  return found
end

local function trim(key)
  local excess = redis.call('HLEN', key) - plan.cluster_cap
  if excess <= 0 then return end
  local some, last, times, as_old, evicted = sample(key, 3 * excess + 16), {}, {}, {}, {}
  for i = 1, #some, 2 do
    local at = struct.unpack('<d', some[i + 1], 17)
    if not as_old[at] then times[#times + 1] = at end
    last[i], as_old[at] = at, (as_old[at] or 0) + 1
  end
  table.sort(times) -- distinct times are few: all signals of a batch share one
  local n, ties = 1, excess
  while times[n + 1] and as_old[times[n]] < ties do
    ties = ties - as_old[times[n]]
    n = n + 1
  end
  for i = 1, #some, 2 do
    if last[i] == times[n] then ties = ties - 1 end
    if last[i] < times[n] or last[i] == times[n] and ties >= 0 then evicted[#evicted + 1] = some[i] end
  end
  redis.call('HDEL', key, unpack(evicted))
end
for i, scores in ipairs(clusters) do
  local key, written = keys_clusters[i], {}
  for fact_id, score in pairs(scores) do
    written[#written + 1] = fact_id
    written[#written + 1] = struct.pack(CLUSTER, unpack(score))
  end
  if #written > 0 then
    redis.call('HSET', key, unpack(written))
    trim(key)
  end
end

redis.call('HSET', key_bank, 'version', version, 'last_signal_at', now)
for kind, number in ipairs(counts) do
  if number > 0 then
    redis.call('HINCRBY', key_bank, SIGNAL_TYPES[kind], number)
    redis.pcall('HINCRBY', key_sigstats, SIGNAL_TYPES[kind], number)
  end
end
redis.call('ZADD', key_banks, now, plan.bank)
mark_seen(key_sigseen, key_sigseen_old, unpack(ids))
redis.call('RPUSH', key_siglog, unpack(logs))
redis.call('LTRIM', key_siglog, -1000, -1)
redis.call('PEXPIRE', key_siglog, SIGLOG_LIFETIME)
for i, entries in pairs(histories) do
  append_history(keys_hists[i], unpack(entries))
end
return 'ok'
