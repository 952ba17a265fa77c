-- The note that something is new: in a team, or in one of its shards (`TEAM.SHARD`). Scripts that make one declare the
-- keys teams, active and noticed.

-- The place is visited at once, or one period after `visited`, and in each period from then on, for a while. Returns 1
-- if the team was not known, else 0, and its name. Every host may notify: what cannot be a place is skipped.
local function notice(place, now, visited)
  local team = string.match(place, '^[a-z0-9-]+$') or string.match(place, '^([a-z0-9-]+)%.%d%d?%d?%d?$')
  if not team or #team > 64 then
    return 0
  end
  redis.call('ZADD', key_active, 'NX', visited, place)
  redis.call('ZADD', key_noticed, now, team)
  return redis.call('ZADD', key_teams, 'NX', now, team), team
end
