-- Scores and their records; the arithmetic is that of tellback.signals.scoring, and a test compares the two.
-- A fact: score, scored_at, last_signal_at, created_at, and counts of used, ignored, helpful, not_helpful.
-- A fact in a context: score, scored_at, last_signal_at, count. Little-endian doubles; times in milliseconds.
-- Decay written back moves scored_at and never last_signal_at.
local FACT, CONTEXT = '<dddddddd', '<dddd'

-- The score after a signal: decay since scored_at toward 0.5, then the change, then the clamp.
local function moved(score, scored_at, now, change)
  if now > scored_at then
    score = 0.5 + (score - 0.5) * 0.95 ^ ((now - scored_at) / 604800000)
  end
  return math.min(math.max(score + change, 0), 1)
end

local function read_fact(packed, now)
  if not packed then
    return {0.5, now, now, now, 0, 0, 0, 0}
  end
  return {struct.unpack(FACT, packed)}
end

local function read_context_score(packed, now)
  if not packed then
    return {0.5, now, now, 0}
  end
  return {struct.unpack(CONTEXT, packed)}
end
