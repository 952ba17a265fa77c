-- The acknowledgement of entries. Scripts that apply events declare the keys intake and lease, and the arguments fence,
-- of the consumer, and entries, a JSON array of ids. An entry leaves the stream in the script that stores its effect.
-- @include clock
-- @include fence

-- Fails if one of these keys has another type. A script calls it before `ack`: what it has done when it fails later
-- stays done, and an entry that has left the stream becomes no dead letter.
local function expect_type(kind, ...)
  for _, key in ipairs({...}) do
    local found = redis.call('TYPE', key).ok
    if found ~= kind and found ~= 'none' then
      error('WRONGTYPE ' .. key .. ' is a ' .. found .. ', not a ' .. kind)
    end
  end
end

-- Returns whether any of the entries was still there: a caller repeats a script whose reply was lost.
local function ack()
  local ids = cjson.decode(arg_entries)
  if #ids == 0 then
    return false
  end
  local pending = redis.call('XACK', key_intake, 'consumer', unpack(ids))
  return pending + redis.call('XDEL', key_intake, unpack(ids)) > 0
end
