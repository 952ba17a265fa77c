-- Longer than workers leave between two observations of the clock while any of them lives: sweeps observe it every two
-- seconds.
local UNOBSERVED_MS = 10000

-- Return the server's clock, in milliseconds since the epoch.
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
