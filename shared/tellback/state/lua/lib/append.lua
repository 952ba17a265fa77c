-- Appending to an intake stream. Scripts declare the keys intake, lease and wakeup, of the consumer.

-- True if an append failed because somebody appended with the highest id, which nothing can follow.
local function used_up(added)
  return type(added) == 'table' and string.find(added.err, 'exhausted the last possible ID', 1, true) ~= nil
end

-- Appends one entry; returns its id, or the error. An empty stream whose ids are used up loses nothing if it begins
-- again: the next read makes its group. Who consumes it would wait for higher ids, so it is free for the next one.
local function append(raw)
  local added = redis.pcall('XADD', key_intake, '*', 'm', raw)
  if used_up(added) and redis.call('XLEN', key_intake) == 0 then
    redis.call('DEL', key_intake, key_lease, key_wakeup)
    added = redis.call('XADD', key_intake, '*', 'm', raw)
  end
  return added
end

-- Appends entries from the place `from` on, all or none; returns the id of the first, or the error.
local function append_all(raws, from)
  local first = append(raws[from])
  for i = from + 1, type(first) == 'string' and #raws or 0 do
    local added = redis.pcall('XADD', key_intake, '*', 'm', raws[i])
    if type(added) ~= 'string' then -- the ids were used up on the way: a resend would append the first ones twice
      for _, entry in ipairs(redis.call('XRANGE', key_intake, first, '+')) do
        redis.call('XDEL', key_intake, entry[1])
      end
      return added
    end
  end
  return first
end
