-- Cache embeddings of queries; a full generation becomes the old one. Atomic: neither generation can outgrow its cap
-- or be left without a lifetime.
-- keys: vec, +vec_old
-- args:
--   *embeddings bytes: field and vector, in turn
-- returns: the number of embeddings in the current generation.
-- constants: VEC_LIFETIME

redis.call('HSET', key_vec, unpack(args_embeddings))
redis.call('PEXPIRE', key_vec, VEC_LIFETIME)
local count = redis.call('HLEN', key_vec)
if count >= 10000 then redis.call('RENAME', key_vec, key_vec_old) end
return count
