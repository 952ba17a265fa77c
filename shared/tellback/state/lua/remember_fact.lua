-- Remembers one fact of a bank: text and vector, in place of those it had. Atomic, so that the two are of one moment,
-- an event counts once, and the entry leaves the intake with its effect.
--
-- KEYS: as `memories` says. ARGV: 1 fence, 2 entry ids, 3 event id, 4 id, 5 kind, 6 model, 7 dimension of a store that
-- begins, 8 most facts, 9 most bytes, 10 fact id, 11 text, 12 vector as float32,
-- 13 what tells the model's files from others, 14 bank.
-- Returns 'ok' | 'fenced' | {model, dimension, weights} of the store where those are others; then nothing was written.
-- @include memories
local EVICTED_AT_ONCE = 8

if fenced() then return 'fenced' end
local mem = redis.call('HMGET', KEYS[3], 'kind', 'model', 'dimension', 'weights')
if mem[1] then
  -- The same files are the same model, whatever they are called; where either does not say, the name counts.
  local weights, same = mem[4] or '', mem[2] == ARGV[6]
  if weights ~= '' and ARGV[13] ~= '' then same = weights == ARGV[13] end
  if not same or mem[3] ~= ARGV[7] then return {mem[2], mem[3], weights} end
end
settle()
if applied_before(ARGV[3]) then return 'ok' end

local kind, fact_id = mem[1] or ARGV[5], ARGV[10]
if not mem[1] then
  redis.call('HSET', KEYS[3], 'id', ARGV[4], 'kind', kind, 'model', ARGV[6], 'dimension', ARGV[7], 'weights', ARGV[13],
    'bytes', 0)
end
local now = now_ms()
redis.call('ZADD', KEYS[13], now, ARGV[14])
local record = struct.pack('<d', now) .. ARGV[11]
redis.call('HINCRBY', KEYS[3], 'bytes', #record - redis.call('HSTRLEN', KEYS[4], fact_id))
redis.call('HSET', KEYS[4], fact_id, record)
redis.call('ZADD', KEYS[6], redis.call('HINCRBY', KEYS[3], 'version', 1), fact_id)
if kind == 'set' then
  redis.call('VADD', KEYS[8], 'FP32', ARGV[12], fact_id, 'NOQUANT')
else
  redis.call('HSET', KEYS[5], fact_id, ARGV[12])
  redis.call('ZREM', KEYS[7], fact_id)
end

-- Over its bounds the bank loses what it was told longest ago, never the fact of now.
for _ = 1, EVICTED_AT_ONCE do
  local count = redis.call('HLEN', KEYS[4])
  local bytes = tonumber(redis.call('HGET', KEYS[3], 'bytes'))
  if count < 2 or (count <= tonumber(ARGV[8]) and bytes <= tonumber(ARGV[9])) then break end
  drop_fact(kind, redis.call('ZRANGE', KEYS[6], 0, 0)[1])
end
return 'ok'
