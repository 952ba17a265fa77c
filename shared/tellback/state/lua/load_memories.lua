-- What is new among a bank's remembered facts, for a process that keeps their vectors. Atomic, so that the version
-- told is that of what is told.
--
-- KEYS: 1 mem, 2 memvec, 3 memver, 4 memgone. ARGV: 1 id and 2 version of what is known ('' and 0: nothing), 3 most
-- facts in a reply.
-- Returns {fields of mem, 1 where what is known is to be dropped first, version told, fact ids, vectors, gone ids}.
local mem = redis.call('HMGET', KEYS[1], 'id', 'version', 'floor')
local since, version, most = tonumber(ARGV[2]), tonumber(mem[2] or 0), tonumber(ARGV[3])
local anew = ((mem[1] or '') ~= ARGV[1] or since < tonumber(mem[3] or 0)) and 1 or 0
if anew == 1 then since = 0 end

local names = redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. since, '+inf', 'LIMIT', 0, most)
local vectors = {}
if #names > 0 then vectors = redis.call('HMGET', KEYS[2], unpack(names)) end
if #names == most then version = tonumber(redis.call('ZSCORE', KEYS[3], names[most])) end
local gone = {}
if anew == 0 then gone = redis.call('ZRANGEBYSCORE', KEYS[4], '(' .. since, version) end
return {redis.call('HGETALL', KEYS[1]), anew, version, names, vectors, gone}
