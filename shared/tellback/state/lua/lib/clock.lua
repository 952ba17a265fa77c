-- Return the server's clock, in milliseconds since the epoch: one time for the whole script.
local script_time
local function now_ms()
  script_time = script_time or redis.call('TIME')
  local time = script_time
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
