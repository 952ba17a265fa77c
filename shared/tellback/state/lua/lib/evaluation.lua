-- One evaluation: its state, the mailbox, and when it is to be looked at without a tool call. `keys` is
-- {eval=, mail=, due=}. A feedback in the mailbox that came without a tool call says so by its `slot`.
local WEEK = 604800000
local MAIL = 100

-- `version` is a new one. `calls` is what take_feedback compares with; after it come the newest calls that are not kept
-- yet, field and line of each in turn.
local function keep_state(keys, version, state, calls, ...)
  redis.call('HSET', keys.eval, 'version', version, 'state', state, 'calls', calls, ...)
  redis.call('PEXPIRE', keys.eval, WEEK)
end

-- `at`: '' where time triggers nothing in this evaluation, '-' where it does no more.
local function schedule(keys, member, at)
  if at == '-' then
    redis.call('ZREM', keys.due, member)
  elseif at ~= '' then
    redis.call('ZADD', keys.due, at, member)
    redis.call('PEXPIRE', keys.due, WEEK)
  end
end

-- Takes out what waits of these slots (a table: slot number -> true).
local function outdate(keys, slots)
  for _, raw in ipairs(redis.call('LRANGE', keys.mail, 0, -1)) do
    local slot = cjson.decode(raw).slot
    if slot and slots[slot] then
      redis.call('LREM', keys.mail, 1, raw)
    end
  end
end

local function deliver(keys, ...)
  redis.call('RPUSH', keys.mail, ...)
  redis.call('LTRIM', keys.mail, -MAIL, -1)
  redis.call('PEXPIRE', keys.mail, WEEK)
end
