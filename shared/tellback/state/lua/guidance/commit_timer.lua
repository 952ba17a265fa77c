-- flags: allow-oom
-- Commit the effects of a timer on one evaluation. Several workers may evaluate the same timer; atomic with the check
-- of the version, which lets only one of them commit. The mailbox's generation proves that nobody has taken the
-- waiting feedback since it was loaded.
-- keys: evaluation, +mailbox, hist, +activity, guidestats, /timers
-- args:
--   version text: that was loaded
--   new_version text
--   generation int: of the mailbox, that was loaded
--   state bytes
--   calls int: tool calls counted
--   timer str: the member of timers
--   next_timer str: see lib/evaluation
--   *newest_calls text: field and value of each newest call, in turn
--   *feedback text: JSON, with its `slot`
--   *counts arg: counter and increment, in turn
--   *lines text: of the history, JSON
-- returns: 'ok' | 'stale'.
-- @include history
-- @include tally
-- @include evaluation
-- constants: ACTIVITY_LIFETIME
local loaded = redis.call('HMGET', key_evaluation, 'version', 'takes')
if loaded[1] ~= arg_version or (loaded[2] or '0') ~= arg_generation then
  return 'stale'
end
redis.call('LLEN', key_mailbox) -- first: if it has another type, nothing is done
store_state(arg_new_version, arg_state, arg_calls, unpack(args_newest_calls))
schedule(arg_timer, arg_next_timer)
if #args_feedback > 0 then
  local slots = {}
  for _, feedback in ipairs(args_feedback) do
    slots[cjson.decode(feedback).slot] = true
  end
  drop_outdated(slots)
  deliver(unpack(args_feedback))
end
tally_given(key_guidestats, args_counts)
append_history(key_hist, unpack(args_lines))
if #args_feedback > 0 then -- a nudge, and no activity: the agent did nothing
  redis.pcall('HINCRBY', key_activity, 'nudges', #args_feedback)
  redis.call('PEXPIRE', key_activity, ACTIVITY_LIFETIME)
end
return 'ok'
