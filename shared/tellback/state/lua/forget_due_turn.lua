-- Takes an id out of the due set whose turn has gone after its lifetime; not if the turn is there again at this moment.
-- KEYS: due set, turn.  ARGV: id of the turn.  Returns 1 if it was taken out.
if redis.call('EXISTS', KEYS[2]) == 1 then
  return 0
end
return redis.call('ZREM', KEYS[1], ARGV[1])
