-- Applies whole batches of one bank, in order. Atomic, so that no signal is lost or counts twice, a context is never
-- begun beside one that would match, and the entries leave the intake with their effect.
--
-- KEYS: 1 intake stream, 2 lease, 3 bank, 4 banks, 5 facts, 6 recent, 7 ctxvec, 8 ctxtext, 9 ctxver, 10 ctxrecent,
--       11 sigseen, 12 sigseen-old, 13 siglog, 14 above, 15 below, 16 bankdays, 17 sigstats;
--       then ctx of each place; then hist of each session.
-- ARGV: 1 fence, 2 entry ids, 3 MessagePack of
--       {bank, known = id of the bank that was read or '', version = its version, id, model, dimension, threshold, weights: for a
--        bank that begins; lease_ms = renewal of the lease; facts_cap, ctx_cap; places = {{slot, begins, text}}; vectors of those that begin follow in ARGV;
--        items = {{signal_id, fact_id, kind 1..4, change, place from 1, session from 0 = none, log = JSON after "at"}}}
-- Returns 'ok' | 'fenced' | 'stale': the bank has another version, or a signal was applied before; load again.
-- @include intake
-- @include history
-- @include score
-- @include ranks

if fenced() then return 'fenced' end
local plan = cmsgpack.unpack(ARGV[3])
local bank = redis.call('HMGET', KEYS[3], 'id', 'version')
if (bank[1] or '') ~= plan.known or tonumber(bank[2] or 0) ~= plan.version then return 'stale' end

local items, now = plan.items, now_ms()
local PLACES, SESSIONS = 17, 17 + #plan.places
local KINDS = {'used', 'ignored', 'helpful', 'not_helpful'}

local ids = {}
for i, item in ipairs(items) do ids[i] = item[1] end
if #ids > 0 then
  for _, key in ipairs({KEYS[11], KEYS[12]}) do
    for _, seen in ipairs(redis.call('SMISMEMBER', key, unpack(ids))) do
      if seen == 1 then return 'stale' end
    end
  end
end
settle()
redis.call('PEXPIRE', KEYS[2], plan.lease_ms)
if #items == 0 then return 'ok' end

if not bank[1] then
  redis.call('HSET', KEYS[3], 'id', plan.id, 'model', plan.model, 'dimension', plan.dimension,
    'threshold', plan.threshold, 'weights', plan.weights, 'created_at', now)
end

-- Contexts that the batches begin, each at a version of its own.
local version, former = plan.version, {}
local vectors, texts, versions, touched = {}, {}, {}, {}
for i, place in ipairs(plan.places) do
  local slot = place[1]
  if place[2] then
    version = version + 1
    local n = version - plan.version
    former[n] = KEYS[PLACES + i]
    vectors[2 * n - 1], vectors[2 * n] = slot, ARGV[3 + n]
    texts[2 * n - 1], texts[2 * n] = slot, place[3]
    versions[2 * n - 1], versions[2 * n] = version, slot
  end
  touched[2 * i - 1], touched[2 * i] = now, slot
end
if version > plan.version then
  redis.call('DEL', unpack(former))
  redis.call('HSET', KEYS[7], unpack(vectors))
  redis.call('HSET', KEYS[8], unpack(texts))
  redis.call('ZADD', KEYS[9], unpack(versions))
end
redis.call('ZADD', KEYS[10], unpack(touched))

-- Scores as they stand; each is read once and written once, however many signals move it.
local facts, order, sum = {}, {}, offset_sum(KEYS[3], now)
for _, item in ipairs(items) do
  if not facts[item[2]] then
    facts[item[2]] = true
    order[#order + 1] = item[2]
  end
end
for i, packed in ipairs(redis.call('HMGET', KEYS[5], unpack(order))) do
  facts[order[i]] = read_fact(packed, now)
  if packed then sum:take(facts[order[i]]) end
end
local contexts, asked = {}, {}
for i = 1, #plan.places do contexts[i], asked[i] = {}, {} end
for _, item in ipairs(items) do
  local scores, ids = contexts[item[5]], asked[item[5]]
  if not scores[item[2]] then
    scores[item[2]] = true
    ids[#ids + 1] = item[2]
  end
end
for i, ids in ipairs(asked) do
  local found = #ids > 0 and redis.call('HMGET', KEYS[PLACES + i], unpack(ids)) or {}
  for n, packed in ipairs(found) do contexts[i][ids[n]] = read_context_score(packed, now) end
end

local counts, logs, histories = {0, 0, 0, 0}, {}, {}
local logged = string.format('{"kind":"signal","at":%.0f,"score":', now)
for i, item in ipairs(items) do
  local kind, change = item[3], item[4]
  local fact, score = facts[item[2]], contexts[item[5]][item[2]]
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
redis.call('HSET', KEYS[5], unpack(fields))
redis.call('ZADD', KEYS[6], unpack(recent))
rank_facts(KEYS[14], KEYS[15], order, facts)

-- Where the cap was lowered, what is over goes with the signals to come: each call has little to do.
local over = math.min(redis.call('ZCARD', KEYS[6]) - plan.facts_cap, EVICTED_AT_ONCE)
if over > 0 then
  local gone = {}
  for i, name in ipairs(redis.call('ZPOPMIN', KEYS[6], over)) do
    if i % 2 == 1 then gone[#gone + 1] = name end
  end
  for _, packed in ipairs(redis.call('HMGET', KEYS[5], unpack(gone))) do
    if packed then sum:take({struct.unpack(FACT, packed)}) end
  end
  redis.call('HDEL', KEYS[5], unpack(gone))
  redis.call('ZREM', KEYS[14], unpack(gone))
  redis.call('ZREM', KEYS[15], unpack(gone))
end
sum:keep()
local count = redis.call('HLEN', KEYS[5])
note_day(KEYS[16], now, sum:mean(count), count, counts)

-- Above the cap a context loses, of some facts taken at random, those signalled longest ago: looking at all of them would
-- take a millisecond, in each of up to 500 contexts that may reach their cap together. Neighbours in a hash table are as
-- good as any, and cost a third of HRANDFIELD's; the clock says where to begin.
local micros = redis.call('TIME')[2]
local function some_of(key, count)
  local found = redis.call('HSCAN', key, micros, 'COUNT', count)[2]
  if #found < 2 * count then found = redis.call('HSCAN', key, 0, 'COUNT', count)[2] end -- it came to the end
  return found
end

local function trim(key)
  local excess = redis.call('HLEN', key) - plan.ctx_cap
  if excess <= 0 then return end
  local some, last, times, as_old, gone = some_of(key, 3 * excess + 16), {}, {}, {}, {}
  for i = 1, #some, 2 do
    local at = struct.unpack('<d', some[i + 1], 17)
    if not as_old[at] then times[#times + 1] = at end
    last[i], as_old[at] = at, (as_old[at] or 0) + 1
  end
  table.sort(times) -- few, where many facts go: those of one batch have one time
  local n, ties = 1, excess
  while times[n + 1] and as_old[times[n]] < ties do
    ties = ties - as_old[times[n]]
    n = n + 1
  end
  for i = 1, #some, 2 do
    if last[i] == times[n] then ties = ties - 1 end
    if last[i] < times[n] or last[i] == times[n] and ties >= 0 then gone[#gone + 1] = some[i] end
  end
  redis.call('HDEL', key, unpack(gone))
end
for i, scores in ipairs(contexts) do
  local key, written = KEYS[PLACES + i], {}
  for fact_id, score in pairs(scores) do
    written[#written + 1] = fact_id
    written[#written + 1] = struct.pack(CONTEXT, unpack(score))
  end
  if #written > 0 then
    redis.call('HSET', key, unpack(written))
    trim(key)
  end
end

redis.call('HSET', KEYS[3], 'version', version, 'last_signal_at', now)
for kind, count in ipairs(counts) do
  if count > 0 then
    redis.call('HINCRBY', KEYS[3], KINDS[kind], count)
    redis.call('HINCRBY', KEYS[17], KINDS[kind], count)
  end
end
redis.call('ZADD', KEYS[4], now, plan.bank)
redis.call('SADD', KEYS[11], unpack(ids))
redis.call('PEXPIRE', KEYS[11], 604800000)
if redis.call('SCARD', KEYS[11]) > 50000 then
  redis.call('RENAME', KEYS[11], KEYS[12])
end
redis.call('RPUSH', KEYS[13], unpack(logs))
redis.call('LTRIM', KEYS[13], -1000, -1)
redis.call('PEXPIRE', KEYS[13], 604800000)
for i, entries in pairs(histories) do
  remember(KEYS[SESSIONS + i], unpack(entries))
end
return 'ok'
