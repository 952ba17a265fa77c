-- flags: allow-oom
-- Give an open turn a new deadline, earlier or later than before, at most its hard limit. Atomic: an answer or a
-- fallback must not come between the check of the state and the new deadline.
-- keys: operation, turn, out, +posted, queue, hist, /due, /channels, /turnstats, /clock
-- args:
--   ms int: from now
-- returns: {"state", "left"}; `left` is the time to the deadline in milliseconds, 0 if the turn is not open.
-- @include decision
-- @include turn
local keys = turn_keys()
local turn = load_turn(keys)
local state = turn and turn.state or 'not_found'
if state ~= 'open' then
  return answer({state = state, left = 0})
end
local now = now_ms()
local clock = steady(now)
local deadline = math.min(clock + tonumber(arg_ms), at_clock(turn.limit, turn.limit_at, clock, now))
local left = math.max(0, deadline - clock)
set_due(keys, turn, deadline, now, 'deferred_at', now)
report(keys, turn, 'deferred', now, {left = left})
return answer({state = 'open', left = left})
