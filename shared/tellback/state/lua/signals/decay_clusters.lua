-- Decay the scores of some query clusters, in the order of their versions, until enough scores are done. Atomic, as
-- decay_facts. A cluster that was evicted needs no decay: another one in its slot holds only fresh scores.
-- keys: /decay, *clusters
-- args:
--   token str: of the caller
--   lease_ms int
--   bank str: its name
--   most int: scores to decay, not counting the first cluster
--   *versions int: of each cluster
-- returns: nil if the caller no longer owns the pass, else how many of the clusters are done.
-- @include decay

local week, now = owned_week()
if not week then return nil end
local scores, written, done = 0, 0, 0
for i, cluster in ipairs(keys_clusters) do
  local size = redis.call('HLEN', cluster)
  if done > 0 and scores + size > tonumber(arg_most) then break end
  written = written + decay(cluster, redis.call('HGETALL', cluster), week, now)
  scores, done = scores + size, i
end
count(scores, written)
redis.call('HSET', key_decay, 'bank', arg_bank, 'step', 'clusters', 'cursor', args_versions[done])
return done
