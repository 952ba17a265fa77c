-- Return entries that wait in a stream, and deliver none: as many as fit the bytes, and one at least. A script because
-- entries of 200 bytes may be followed by such of a megabyte, and only here the size is known before they are sent. It
-- reads only.
-- keys: intake
-- args:
--   after str: entry id
--   max_entries int
--   max_bytes int
-- returns: the entries, as XRANGE has them, and 1 if more may wait, 0 if these are all.
local AT_ONCE = 4 -- so that they exceed the bytes by 4 MiB at most, the largest events
local found, bytes, after, most = {}, 0, arg_after, tonumber(arg_max_entries)
while #found < most and bytes < tonumber(arg_max_bytes) do
  local some = redis.call('XRANGE', key_intake, '(' .. after, '+', 'COUNT', math.min(AT_ONCE, most - #found))
  if #some == 0 then
    return {found, 0}
  end
  for _, entry in ipairs(some) do
    found[#found + 1] = entry
    bytes = bytes + #(entry[2][2] or '')
  end
  after = some[#some][1]
end
return {found, 1}
