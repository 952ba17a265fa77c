-- Store the vector of one stored fact in its bank's next model. One fact a call, because adding one to a vector set
-- takes some milliseconds. Atomic: the version up to which facts are embedded always matches the stored vectors,
-- whichever process dies.
-- keys: factinfo, +factstamps, +factnext, +factver, +factnextvec, +factnextset
-- args:
--   facts_id str
--   stamp str: of the bank's facts when this one was read
--   model str
--   weights str
--   since int: version from which
--   upto int: version up to which facts are complete with this one
--   kind str
--   fact_id? str: absent if only deleted facts are left
--   vector? bytes
-- returns: 'ok' | 'stale': another process has continued this bank, or for another model, or Redis lost its last
--   changes; read again.
-- @include stamps
-- constants: FACTNEXT_LIFETIME, FACTNEXTVEC_LIFETIME, FACTNEXTSET_LIFETIME

local found = redis.call('HMGET', key_factnext, 'id', 'model', 'weights', 'upto')
if found[1] ~= arg_facts_id or found[2] ~= arg_model or found[3] ~= arg_weights or found[4] ~= arg_since then
  return 'stale'
end
if not has_stamp(key_factinfo, key_factstamps, arg_stamp) then return 'stale' end
-- A fact that was forgotten or stored again meanwhile has another version or none; its old vector must not return.
if arg_fact_id and tonumber(redis.call('ZSCORE', key_factver, arg_fact_id) or -1) == tonumber(arg_upto) then
  if arg_kind == 'set' then
    redis.call('VADD', key_factnextset, 'FP32', arg_vector, arg_fact_id, 'NOQUANT')
  else
    redis.call('HSET', key_factnextvec, arg_fact_id, arg_vector)
  end
end
redis.call('HSET', key_factnext, 'upto', arg_upto)
redis.call('PEXPIRE', key_factnext, FACTNEXT_LIFETIME)
redis.call('PEXPIRE', key_factnextvec, FACTNEXTVEC_LIFETIME)
redis.call('PEXPIRE', key_factnextset, FACTNEXTSET_LIFETIME)
return 'ok'
