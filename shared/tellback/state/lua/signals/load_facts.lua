-- Load the changes of a bank's stored facts, for a process that caches their vectors. Atomic: the version returned is
-- that of the vectors beside it.
-- keys: factinfo, +factvec, +factver, +factstamps, +factdeleted
-- args:
--   facts_id str: of what is cached, '' for nothing
--   version int: of what is cached, 0 for nothing
--   stamp str: of what is cached, or ''
--   limit int: most facts to return
-- returns: {factinfo as a flat hash, 1 if the cache must be dropped first, else 0, version, fact ids, vectors, deleted
--   ids}.
-- @include stamps
local factinfo = redis.call('HMGET', key_factinfo, 'id', 'version', 'floor')
local since, version, most = tonumber(arg_version), tonumber(factinfo[2] or 0), tonumber(arg_limit)
local is_reset = ((factinfo[1] or '') ~= arg_facts_id or since < tonumber(factinfo[3] or 0)
  or not has_stamp(key_factinfo, key_factstamps, arg_stamp)) and 1 or 0
if is_reset == 1 then since = 0 end

local names = redis.call('ZRANGEBYSCORE', key_factver, '(' .. since, '+inf', 'LIMIT', 0, most)
local vectors = {}
if #names > 0 then vectors = redis.call('HMGET', key_factvec, unpack(names)) end
if #names == most then version = tonumber(redis.call('ZSCORE', key_factver, names[most])) end
local deleted = {}
if is_reset == 0 then deleted = redis.call('ZRANGEBYSCORE', key_factdeleted, '(' .. since, version) end
return {redis.call('HGETALL', key_factinfo), is_reset, version, names, vectors, deleted}
