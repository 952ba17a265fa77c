-- flags: allow-oom
-- Extend the deadline of a turn whose host still works on it: by as long again, at most to the hard limit. A later
-- deadline, from a deferral, stands. Atomic: a fallback must not come between the check of the state and the new
-- deadline.
-- keys: operation, turn, out, +posted, queue, hist, /due, /channels, /turnstats, /clock
-- returns: {"state", "left"}; `left` is the time to the deadline in milliseconds, 0 if the turn is no longer open.
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
local limit = at_clock(turn.limit, turn.limit_at, clock, now)
local before = at_clock(turn.deadline, turn.set_at, clock, now)
local deadline = math.max(before, math.min(clock + tonumber(turn.within), limit))
set_due(keys, turn, deadline, now)
return answer({state = 'open', left = math.max(0, deadline - clock)})
