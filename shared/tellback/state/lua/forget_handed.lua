-- Takes a turn out of a host's list of turns handed over to it, unless it is owed by that host at this moment: it may have
-- come back since it was read.
-- KEYS: turns handed over to the host, turn.  ARGV: id of the turn, host.  Returns 1 if it was taken out.
local turn = redis.call('HMGET', KEYS[2], 'state', 'host')
if turn[2] == ARGV[2] and (turn[1] == 'open' or turn[1] == 'finishing') then
  return 0
end
return redis.call('ZREM', KEYS[1], ARGV[1])
