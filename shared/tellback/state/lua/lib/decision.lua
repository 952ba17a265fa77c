-- The stored reply of a decision. The key operation keeps the reply of this operation id for ten minutes: a retry gets
-- the same reply here, before anything else of the script, and has no second effect.
-- @include clock
-- constants: OP_LIFETIME
local replayed = redis.call('GET', key_operation)
if replayed then return replayed end

local function answer(reply)
  local json = cjson.encode(reply)
  redis.call('SET', key_operation, json, 'PX', OP_LIFETIME)
  return json
end
