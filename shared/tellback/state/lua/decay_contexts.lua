-- Decays the scores of some contexts, in the order of their versions, until enough scores are done. Atomic, as
-- `decay_facts`. A context that was evicted, and whose slot another has taken, holds fresh scores only.
--
-- KEYS: 1 decay, then ctx of each context.
-- ARGV: 1 token, 2 lease in milliseconds, 3 name of the bank, 4 how many scores at most, the first context's apart,
--       then each context's version.
-- Returns nil where the pass is no longer the caller's, else how many of the contexts are done.
-- @include decay

local week, now = working()
if not week then return nil end
local scores, written, done = 0, 0, 0
for i = 2, #KEYS do
  local size = redis.call('HLEN', KEYS[i])
  if done > 0 and scores + size > tonumber(ARGV[4]) then break end
  written = written + decay(KEYS[i], redis.call('HGETALL', KEYS[i]), week, now)
  scores, done = scores + size, i - 1
end
count(scores, written)
redis.call('HSET', KEYS[1], 'bank', ARGV[3], 'step', 'contexts', 'cursor', ARGV[4 + done])
return done
