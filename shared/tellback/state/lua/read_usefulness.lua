-- Scores of facts for a query: from the best of its contexts in which the fact has one, else the fact's global score.
-- Atomic, so that the contexts are those that were matched. A stored 0.5 is a score, not an absence.
--
-- KEYS: 1 bank, 2 facts, then ctx of each matching context, best first.
-- ARGV: 1 id and 2 version of the bank at which the contexts were matched (version -1: without contexts, any will do),
--       then fact ids.
-- Returns 'stale', or {now, for each fact {} or {1 where a context's else 0, packed record}}.
-- @include clock

local version = tonumber(ARGV[2])
if version >= 0 then
  local bank = redis.call('HMGET', KEYS[1], 'id', 'version')
  if (bank[1] or '') ~= ARGV[1] or tonumber(bank[2] or 0) ~= version then return 'stale' end
end

local open, found = {}, {}
for i = 3, #ARGV do
  open[i - 2], found[i - 2] = i - 2, {}
end
for k = 3, #KEYS + 1 do
  if #open == 0 then break end
  local of_context = k <= #KEYS
  local names, left = {}, {}
  for i, at in ipairs(open) do names[i] = ARGV[at + 2] end
  for i, packed in ipairs(redis.call('HMGET', of_context and KEYS[k] or KEYS[2], unpack(names))) do
    if packed then
      found[open[i]] = {of_context and 1 or 0, packed}
    else
      left[#left + 1] = open[i]
    end
  end
  open = left
end
return {now_ms(), unpack(found)}
