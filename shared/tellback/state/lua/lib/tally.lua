-- A day's guidance counters in a shard, `WHAT:NAME:MEASURE` or `WHAT:MEASURE`. Names come from outside, so each WHAT
-- has a cap; further names are counted under `other`. Service fields: `since` (the first count), `names:WHAT` (how
-- many names) and `name:WHAT:NAME` (a name that is counted under its own).
-- @include clock
-- constants: GUIDESTATS_LIFETIME
local NAMES = 200
local FIELDS_AT_ONCE = 1000 -- safely below the limit of `unpack`

-- The marks in `marks` (mark -> WHAT) whose names are counted under their own; admits new names up to the cap.
local function admitted(key, marks)
  local order, own, room = {}, {}, {}
  for mark in pairs(marks) do
    order[#order + 1] = mark
  end
  for from = 1, #order, FIELDS_AT_ONCE do
    local known = redis.call('HMGET', key, unpack(order, from, math.min(from + FIELDS_AT_ONCE - 1, #order)))
    for i, mark in ipairs(known) do
      own[order[from + i - 1]] = mark or nil
    end
  end
  for _, mark in ipairs(order) do
    local what = marks[mark]
    if not own[mark] then
      room[what] = room[what] or NAMES - tonumber(redis.call('HGET', key, 'names:' .. what) or '0')
      if room[what] > 0 then
        room[what] = room[what] - 1
        redis.call('HSET', key, mark, 1)
        redis.call('HINCRBY', key, 'names:' .. what, 1)
        own[mark] = '1'
      end
    end
  end
  return own
end

-- Adds `counts` (counter -> increment). Names are read in bulk, so that even a flood of them keeps the call short.
local function tally(key, counts)
  if not next(counts) then return end
  local is_new = redis.pcall('HSETNX', key, 'since', now_ms())
  if type(is_new) == 'table' then return end -- another type: it must cost no feedback
  if is_new == 1 then redis.call('PEXPIRE', key, GUIDESTATS_LIFETIME) end
  local parts, marks, sums = {}, {}, {}
  for counter in pairs(counts) do
    local what, name, measure = string.match(counter, '^(%w+):([^:]*):(.*)$')
    if what and name ~= 'other' then
      local mark = 'name:' .. what .. ':' .. name
      marks[mark] = what
      parts[counter] = {mark, what .. ':other:' .. measure}
    end
  end
  local own = admitted(key, marks)
  for counter, by in pairs(counts) do
    local part = parts[counter]
    if part and not own[part[1]] then
      counter = part[2]
    end
    sums[counter] = (sums[counter] or 0) + by
  end
  for counter, by in pairs(sums) do
    redis.call('HINCRBY', key, counter, by)
  end
end

-- Adds pairs of counter and increment.
local function tally_given(key, pairs_given)
  local counts = {}
  for index = 1, #pairs_given, 2 do
    counts[pairs_given[index]] = tonumber(pairs_given[index + 1])
  end
  tally(key, counts)
end
