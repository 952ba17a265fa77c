-- Append events to one intake stream, all or none. One call carries many entries because packing one command for each
-- took most of the host's time. Atomic for two reasons: a resend is appended once, however late the first attempt
-- arrives; and hosts that append at the same time cannot all pass the same check of the bounds.
-- keys: intake, +lease, +wakeup, /limits, /bucket, mark?
-- args:
--   max_entries int
--   max_bytes int
--   first int: number of the first event
--   *events text: JSON, numbered without a gap
-- returns: {'appended' | 'full' | 'bytes' | 'rate' | 'suspended', entries and bytes before the call, 1 if dispatchers
--   must be notified}. All but the first append nothing: the stream is at a bound or at its share of the bytes that the
--   team is allowed, the team is at its rate, or it is suspended.
-- constants: WRITER_LIFETIME, LEASE_LIFETIME, WAKEUP_LIFETIME, BUCKET_LIFETIME
-- @include append
-- @include clock
-- @include held
local first, skipped = tonumber(arg_first), 0
if key_mark then
  local mark = redis.pcall('GET', key_mark) -- of another type, or no number of an event: as if it had expired
  mark = type(mark) == 'string' and tonumber(mark) or 0
  skipped = mark < 2 ^ 53 and math.max(0, mark - first + 1) or 0 -- infinite, it would drop the writer's events for good
end
local length, bytes = redis.call('XLEN', key_intake), 0
if length > 0 then
  -- SAMPLES 0 measures all nodes. MEMORY USAGE samples the oldest ones: 5 or 100 of them reported 12 MB of 144 when
  -- small entries came before large ones. All nodes take 4 us at 2,000 entries and 190 us at 100,000.
  bytes = redis.call('MEMORY', 'USAGE', key_intake, 'SAMPLES', 0)
end
local function refused(why)
  if key_mark then redis.call('PEXPIRE', key_mark, WRITER_LIFETIME) end  -- the writer sends refused events again
  return {why, length, bytes, 0}
end

-- While a consumer holds the stream, or a wake-up is pending, whoever consumes finds these entries.
local function appended()
  local held = is_held(key_wakeup, WAKEUP_LIFETIME) or is_held(key_lease, LEASE_LIFETIME)
  return {'appended', length, bytes, held and 0 or 1}
end

-- Write nothing before the first XADD: a full Redis refuses only the first write of a script, so the appends after an
-- earlier write would all pass.
if skipped >= #args_events then
  redis.call('PEXPIRE', key_mark, WRITER_LIFETIME)
  return appended() -- the first attempt's reply was lost, and perhaps with it the notification
end
local new = #args_events - skipped
local allowed = redis.pcall('HMGET', key_limits, 'suspended', 'rate', 'burst', 'bytes')
if allowed.err then allowed = {} end -- of another type, or no number: no limit, which must cost no host its events
if allowed[1] then
  return refused('suspended')
end
if length >= tonumber(arg_max_entries) or bytes >= tonumber(arg_max_bytes) then
  return refused('full')
end
if bytes >= (tonumber(allowed[4]) or math.huge) then
  return refused('bytes')
end
local rate, burst, tokens, now = tonumber(allowed[2]), tonumber(allowed[3]), nil, nil
if rate and burst and rate > 0 then
  -- A call may take more than the bucket holds, if that is full, and is paid for by those that follow: otherwise no
  -- call of more events than the burst would ever pass.
  local stored = redis.pcall('HMGET', key_bucket, 'tokens', 'at')
  if stored.err then stored = {} end
  now = now_ms()
  local at = tonumber(stored[2]) or now
  tokens = math.min(burst, (tonumber(stored[1]) or burst) + math.max(0, now - at) * rate / 1000)
  if tokens < math.min(new, burst) then
    -- The server's clock was set back: otherwise the team would wait until the clock has caught up. A full bucket in
    -- its place would let one more burst pass at each step.
    if now < at then redis.pcall('HSET', key_bucket, 'at', string.format('%.0f', now)) end
    return refused('rate')
  end
end
local added = append_all(args_events, skipped + 1)
if type(added) ~= 'string' then return added end
if key_mark then
  redis.call('SET', key_mark, string.format('%.0f', first + #args_events - 1), 'PX', WRITER_LIFETIME)
end
if tokens then
  redis.pcall('HSET', key_bucket, 'tokens', string.format('%.3f', tokens - new), 'at', string.format('%.0f', now))
  redis.call('PEXPIRE', key_bucket, BUCKET_LIFETIME)
end
return appended()
