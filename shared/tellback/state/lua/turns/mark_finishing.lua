-- flags: allow-oom
-- Mark that an answer is on its way through the intake: extend the deadline by a grace, so no fallback overtakes
-- it. Only once: if the event is lost, the sweep still answers. A turn lost in a failover is first restored. Atomic: a
-- sweep must not send a fallback between the check of the state and the new deadline.
-- keys: operation, turn, out, +posted, queue, hist, /due, /channels, /turnstats, /turns, /clock
-- args:
--   grace_ms int
--   lost_id str: of a turn to restore, '' to restore none
--   lost_channel str
--   lost_conversation str
--   lost_session str
--   lost_message_id str
--   lost_language str
--   lost_opened_at int: ms
--   lost_state str: in which it was opened
--   lost_within_ms int: time to answer, if it is still open
-- returns: {"state"}: finishing, or the state that the turn is in.
-- @include decision
-- @include turn
-- @include restore
local keys, now = turn_keys(), now_ms()
local turn = load_or_restore(keys, now)
local state = turn and turn.state or 'not_found'
if state ~= 'open' then
  return answer({state = state})
end
local clock = steady(now)
local deadline = math.max(at_clock(turn.deadline, turn.set_at, clock, now), clock + tonumber(arg_grace_ms))
set_due(keys, turn, deadline, now, 'state', 'finishing')
return answer({state = 'finishing'})
