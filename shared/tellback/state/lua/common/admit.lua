-- Let a host use a session or bank, if the team has it already or may have one more. Atomic: of hosts that bring new
-- ones at the same time, as many are let in as there is room for. What is let in is listed at once, and so counts.
-- keys: names, others, /limits
-- args:
--   field str: the limit, 'sessions' or 'banks'
--   name str
--   within_ms int: names that were used in this time count; 0 for all
-- returns: 'unlimited' | 'admitted' | the most names, as text, of which none may be added.
-- @include clock
-- @include sessions
local most = redis.pcall('HGET', key_limits, arg_field)
-- of another type, or no number: no limit, which must cost no host its events
if type(most) == 'table' or not tonumber(most) then return 'unlimited' end
local now, within = now_ms(), tonumber(arg_within_ms)
local from = within > 0 and now - within or '-inf'
local used = redis.call('ZSCORE', key_names, arg_name) or redis.call('ZSCORE', key_others, arg_name)
if used and (within == 0 or tonumber(used) >= from) then return 'admitted' end
-- `others` lists more of the same kind, which may also be in `names`: banks with facts, beside those with signals.
local count = redis.call('ZCOUNT', key_names, from, '+inf')
if key_others ~= key_names then
  for _, other in ipairs(redis.call('ZRANGE', key_others, 0, -1)) do
    if not redis.call('ZSCORE', key_names, other) then count = count + 1 end
  end
end
if count >= tonumber(most) then return most end
if arg_field == 'sessions' then
  note_session(key_names, now, arg_name)
else
  redis.call('ZADD', key_names, now, arg_name)
end
return 'admitted'
