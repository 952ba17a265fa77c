-- flags: allow-oom
-- Store the state of a model on a host, and delete states that are too old. Atomic: a host that reports between the
-- read and the deletion would lose its state for a day, because it reports only once.
-- keys: encoder
-- args:
--   field str
--   state text: JSON
--   oldest int: time (ms) before which states are deleted
--   lifetime_ms int: of the key
-- returns: nothing.
local said = redis.call('HGETALL', key_encoder)
for index = 1, #said, 2 do
  local sound, state = pcall(cjson.decode, said[index + 1])
  if sound and type(state) == 'table' and type(state.at) == 'number' and state.at < tonumber(arg_oldest) then
    redis.call('HDEL', key_encoder, said[index])
  end
end
redis.call('HSET', key_encoder, arg_field, arg_state)
redis.call('PEXPIRE', key_encoder, arg_lifetime_ms)
