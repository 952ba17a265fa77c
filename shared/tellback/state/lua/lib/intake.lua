-- The acknowledgement of entries. Scripts that apply events declare the keys intake and lease, and the arguments fence,
-- of the consumer, and entries, a JSON array of ids. An entry leaves the stream in the script that stores its effect.
-- @include clock
-- @include fence

-- Returns whether any of the entries was still there: a caller repeats a script whose reply was lost.
local function ack()
  local ids = cjson.decode(arg_entries)
  if #ids == 0 then
    return false
  end
  local pending = redis.call('XACK', key_intake, 'consumer', unpack(ids))
  return pending + redis.call('XDEL', key_intake, unpack(ids)) > 0
end
