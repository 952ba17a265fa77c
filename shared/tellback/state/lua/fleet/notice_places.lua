-- flags: allow-oom
-- Note that something new happened in these teams: the scheduler visits them in each period for a while. Atomic: a rest
-- between the writes would take a team from the active ones that was just noticed.
-- keys: teams, active, noticed
-- args:
--   *names str: of the teams
-- returns: how many of them were not known.
-- @include clock
-- @include notice
local now, new = now_ms(), 0
for _, team in ipairs(args_names) do
  new = new + notice(team, now)
end
return new
