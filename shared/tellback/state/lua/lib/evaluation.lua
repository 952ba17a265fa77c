-- One evaluation: its state, its mailbox and its next timer. Scripts declare the keys evaluation, mailbox and timers.
-- Feedback of a timer has a `slot`.
-- constants: EVAL_LIFETIME, TIMERS_LIFETIME, MAILBOX_LIFETIME
local MAX_FEEDBACK = 100

-- `version` is new. take_feedback compares with `calls`; the rest are field and line of each newest call that is not
-- stored yet.
local function store_state(version, state, calls, ...)
  redis.call('HSET', key_evaluation, 'version', version, 'state', state, 'calls', calls, ...)
  redis.call('PEXPIRE', key_evaluation, EVAL_LIFETIME)
end

-- `at`: '' if nothing in this evaluation is timed, '-' if nothing is timed any more.
local function schedule(member, at)
  if at == '-' then
    redis.call('ZREM', key_timers, member)
  elseif at ~= '' then
    redis.call('ZADD', key_timers, at, member)
    redis.call('PEXPIRE', key_timers, TIMERS_LIFETIME)
  end
end

-- Removes the waiting feedback of these slots (a table: slot number -> true).
local function drop_outdated(slots)
  for _, raw in ipairs(redis.call('LRANGE', key_mailbox, 0, -1)) do
    local is_read, feedback = pcall(cjson.decode, raw) -- a newer release may have written it
    local slot = is_read and type(feedback) == 'table' and feedback.slot
    if slot and slots[slot] then
      redis.call('LREM', key_mailbox, 1, raw)
    end
  end
end

local function deliver(...)
  if redis.call('RPUSH', key_mailbox, ...) > MAX_FEEDBACK then
    redis.call('LTRIM', key_mailbox, -MAX_FEEDBACK, -1)
  end
  redis.call('PEXPIRE', key_mailbox, MAILBOX_LIFETIME)
end
