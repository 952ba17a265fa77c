-- flags: allow-oom
-- Remove a turn from the list of turns handed over to a host, unless that host owes it now. Atomic: the turn may have
-- been handed back since the caller read it.
-- keys: handover, turn
-- args:
--   turn_id str
--   host str
-- returns: 1 if the turn was removed, else 0.
local turn = redis.pcall('HMGET', key_turn, 'state', 'host') -- a key of another type is no turn that a host owes
if turn[2] == arg_host and (turn[1] == 'open' or turn[1] == 'finishing') then
  return 0
end
return redis.call('ZREM', key_handover, arg_turn_id)
