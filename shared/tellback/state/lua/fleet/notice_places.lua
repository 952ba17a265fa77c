-- flags: allow-oom
-- Note that something new happened at these places, teams or shards: the scheduler visits them in each period for a
-- while. Atomic: a rest between the writes would take a place from the active ones that was just noticed.
-- keys: /teams, /active, /noticed
-- args:
--   *places str
-- returns: how many of their teams were not known.
-- @include clock
-- @include notice
local now, new = now_ms(), 0
for _, place in ipairs(args_places) do
  new = new + (notice(place, now, 0))
end
return new
