-- Scores and their records. The arithmetic is that of tellback.signals.ranking, and a test compares the two.
-- A fact: score, scored_at, last_signal_at, created_at, and its counts in the order of SIGNAL_TYPES. A fact
-- in a cluster: score, scored_at, last_signal_at, count. Little-endian doubles; times in milliseconds. The weekly
-- decay moves scored_at and never last_signal_at.
-- constants: SIGNAL_TYPES, NEUTRAL, DECAY_PER_WEEK, WEEK_MS
local FACT, CLUSTER = '<dddd' .. string.rep('d', #SIGNAL_TYPES), '<dddd'
local FACT_BYTES = struct.size(FACT)

-- The score after a signal: first decay towards 0.5 since scored_at, then the change, then the clamp.
local function moved(score, scored_at, now, change)
  if now > scored_at then
    score = NEUTRAL + (score - NEUTRAL) * DECAY_PER_WEEK ^ ((now - scored_at) / WEEK_MS)
  end
  return math.min(math.max(score + change, 0), 1)
end

-- The table of a packed record. One from before the newest signal types is shorter, and their counts are 0.
local function unpacked(format, size, packed)
  return {struct.unpack(format, #packed < size and packed .. string.rep('\0', size - #packed) or packed)}
end

local function read_fact(packed, now)
  if not packed then
    local fact = {NEUTRAL, now, now, now}
    for kind = 1, #SIGNAL_TYPES do fact[4 + kind] = 0 end
    return fact
  end
  return unpacked(FACT, FACT_BYTES, packed)
end

local function read_cluster_score(packed, now)
  if not packed then
    return {NEUTRAL, now, now, 0}
  end
  return {struct.unpack(CLUSTER, packed)}
end
