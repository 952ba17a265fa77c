-- flags: allow-oom
-- Close a turn that needs no reply, and keep the reason. Atomic: an answer or a fallback must not come between the
-- check of the state and its change.
-- keys: operation, turn, out, +posted, queue, hist, /due, /channels, /turnstats, /clock
-- args:
--   reason str: an excerpt, for the history
-- returns: {"state", "closed"}; `closed` is true if the turn is now closed without a reply.
-- @include decision
-- @include turn
local keys = turn_keys()
local turn = load_turn(keys)
local state = turn and turn.state or 'not_found'
if state ~= 'open' and state ~= 'finishing' and state ~= 'auto' then
  return answer({state = state, closed = state == 'no_reply'})
end
local now = now_ms()
close_turn(keys, turn.id, 'no_reply', now)
report(keys, turn, 'no_reply', now, {reason = arg_reason})
return answer({state = 'no_reply', closed = true})
