-- For scripts that apply facts. KEYS[1] intake stream, KEYS[2] its lease; ARGV[1] the drainer's fence,
-- ARGV[2] a JSON array of entry ids. An entry leaves the stream in the script that stores its effect.
-- @include clock

-- True when another drainer may hold the stream: return 'fenced' before any write.
local function fenced()
  return redis.call('GET', KEYS[2]) ~= ARGV[1]
end

local function settle()
  local ids = cjson.decode(ARGV[2])
  if #ids > 0 then
    redis.call('XACK', KEYS[1], 'drain', unpack(ids))
    redis.call('XDEL', KEYS[1], unpack(ids))
  end
end
