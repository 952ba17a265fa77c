-- The note that something is new in a team. Scripts that make one declare the keys teams, active and noticed.

-- The team is visited at once, and in each period from then on, for a while. Returns 1 if it was not known. Every host
-- may notify: what cannot be a team's name is skipped.
local function notice(team, now)
  if #team > 64 or not string.find(team, '^[a-z0-9-]+$') then
    return 0
  end
  redis.call('ZADD', key_active, 'NX', 0, team)
  redis.call('ZADD', key_noticed, now, team)
  return redis.call('ZADD', key_teams, 'NX', now, team)
end
