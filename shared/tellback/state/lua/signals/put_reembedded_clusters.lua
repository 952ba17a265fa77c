-- Store cluster vectors of a bank's next model. Atomic: the version up to which clusters are embedded always matches
-- the stored vectors, whichever process dies.
-- keys: bank, +clusterstamps, +next, +nextvec
-- args:
--   bank_id str
--   stamp str: of the bank when the texts were read
--   model str
--   weights str
--   since int: version from which
--   upto int: version up to which these clusters are complete
--   *vectors arg: slot and vector, in turn
-- returns: 'ok' | 'stale': another process has continued this bank, or for another model, or Redis lost its last
--   changes; read again.
-- @include stamps
-- constants: NEXT_LIFETIME, NEXTVEC_LIFETIME

local found = redis.call('HMGET', key_next, 'id', 'model', 'weights', 'upto')
if found[1] ~= arg_bank_id or found[2] ~= arg_model or found[3] ~= arg_weights or found[4] ~= arg_since then
  return 'stale'
end
if not has_stamp(key_bank, key_clusterstamps, arg_stamp) then return 'stale' end
if #args_vectors > 0 then redis.call('HSET', key_nextvec, unpack(args_vectors)) end
redis.call('HSET', key_next, 'upto', arg_upto)
redis.call('PEXPIRE', key_next, NEXT_LIFETIME)
redis.call('PEXPIRE', key_nextvec, NEXTVEC_LIFETIME)
return 'ok'
