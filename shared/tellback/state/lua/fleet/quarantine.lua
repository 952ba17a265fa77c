-- flags: allow-oom
-- Rename the keys of a shard that hold another type than Tellback gives them: somebody changed them by hand, and every
-- script that needs one fails. Atomic: a key that is right again, or gone, stays as it is.
-- keys: *wanted, *quarantined
-- args:
--   *types str: of each key of `wanted`
-- returns: {the place of each key that was renamed, from 1, and the type that it had, in turn}.
-- constants: QUARANTINE_LIFETIME
local renamed = {}
for i, key in ipairs(keys_wanted) do
  local kind = redis.call('TYPE', key).ok
  if kind ~= 'none' and kind ~= args_types[i] then
    redis.call('RENAME', key, keys_quarantined[i])
    redis.call('PEXPIRE', keys_quarantined[i], QUARANTINE_LIFETIME)
    renamed[#renamed + 1] = i
    renamed[#renamed + 1] = kind
  end
end
return renamed
