-- flags: allow-oom
-- Store one fact of a bank, its text and vector, in place of its former ones. Atomic: text and vector always belong
-- together, an event counts once, and its entry leaves the intake with its effect.
-- keys: intake, +lease, factinfo, +facttext, +factvec, +factver, +factstamps, +factdeleted, +factset, +factseen,
--   +factseen_old, +factnextvec, +factnextset, /factbanks
-- args:
--   fence int
--   entries text: JSON array of the ids that leave the stream
--   event_id str
--   new_stamp str
--   facts_id str: of a store that begins
--   kind str: of a store that begins
--   model str
--   dimension int
--   max_facts int
--   max_bytes int
--   fact_id str
--   text str
--   vector bytes: float32
--   weights str: digest of the model's files, or ''
--   bank str
-- returns: 'ok' | 'fenced' | {model, dimension, weights} of the store if they differ; then nothing was written.
-- @include stored_facts
local EVICTION_BATCH = 8

if fenced() then return 'fenced' end
local factinfo = redis.call('HMGET', key_factinfo, 'kind', 'model', 'dimension', 'weights')
if factinfo[1] then
  -- The same files are the same model under any name; if either side has no digest, compare the names.
  local weights, same = factinfo[4] or '', factinfo[2] == arg_model
  if weights ~= '' and arg_weights ~= '' then same = weights == arg_weights end
  if not same or factinfo[3] ~= arg_dimension then return {factinfo[2], factinfo[3], weights} end
end
redis.call('ZCARD', key_factbanks) -- first: if a key that others share has another type, nothing is done
ack()
if applied_before(arg_event_id) then return 'ok' end

local kind, fact_id = factinfo[1] or arg_kind, arg_fact_id
if not factinfo[1] then
  redis.call('HSET', key_factinfo, 'id', arg_facts_id, 'kind', kind, 'model', arg_model, 'dimension', arg_dimension,
    'weights', arg_weights, 'bytes', 0)
end
local now = now_ms()
redis.call('ZADD', key_factbanks, now, arg_bank)
local record = struct.pack('<d', now) .. arg_text
redis.call('HINCRBY', key_factinfo, 'bytes', #record - redis.call('HSTRLEN', key_facttext, fact_id))
redis.call('HSET', key_facttext, fact_id, record)
local version = redis.call('HINCRBY', key_factinfo, 'version', 1)
redis.call('ZADD', key_factver, version, fact_id)
add_stamp(key_factinfo, key_factstamps, version, arg_new_stamp)
if kind == 'set' then
  redis.call('VADD', key_factset, 'FP32', arg_vector, fact_id, 'NOQUANT')
else
  redis.call('HSET', key_factvec, fact_id, arg_vector)
  redis.call('ZREM', key_factdeleted, fact_id)
end

-- Above its bounds the bank evicts the least recently stored facts, never the new one. After a bound was lowered, each
-- call evicts at most EVICTION_BATCH and stays short.
for _ = 1, EVICTION_BATCH do
  local count = redis.call('HLEN', key_facttext)
  local bytes = tonumber(redis.call('HGET', key_factinfo, 'bytes'))
  if count < 2 or (count <= tonumber(arg_max_facts) and bytes <= tonumber(arg_max_bytes)) then break end
  drop_fact(kind, redis.call('ZRANGE', key_factver, 0, 0)[1])
end
return 'ok'
