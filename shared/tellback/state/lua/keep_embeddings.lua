-- Keeps embeddings of queries; when the generation is full it becomes the old one. Atomic, so that neither outgrows its
-- cap and none is left without a lifetime.
--
-- KEYS: 1 vec, 2 vec-old. ARGV: field, vector, ... Returns the number in the generation.

redis.call('HSET', KEYS[1], unpack(ARGV))
redis.call('PEXPIRE', KEYS[1], 86400000)
local count = redis.call('HLEN', KEYS[1])
if count >= 10000 then redis.call('RENAME', KEYS[1], KEYS[2]) end
return count
