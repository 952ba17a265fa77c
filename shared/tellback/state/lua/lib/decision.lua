-- For decisions. KEYS[1] holds the reply of this operation id for ten minutes: clients retry, effects do not repeat.
-- @include clock

local function replay()
  return redis.call('GET', KEYS[1])
end

local function answer(reply)
  local json = cjson.encode(reply)
  redis.call('SET', KEYS[1], json, 'PX', 600000)
  return json
end
