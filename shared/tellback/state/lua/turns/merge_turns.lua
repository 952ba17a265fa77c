-- flags: allow-oom
-- Merge open turns of a conversation into one, which covers them: they close, and its answer, fallback or silence is
-- theirs too. The covering turn gets the nearest deadline and limit of all, and a merge makes no user wait longer.
-- Atomic: all merge or none, and no crash leaves a turn that nobody owes an answer.
-- keys: operation, turn, out, +posted, queue, hist, /due, /channels, /turnstats, /clock, *covered_turns, *covered_hists
-- args:
--   turn_id str: of the covering turn
--   *covered_ids str
-- returns: {"result": merged | not_found | refused, "turn", "state", "into"}; the last three describe the first turn
--   that prevents the merge.
-- @include decision
-- @include turn
local keys, id = turn_keys(), arg_turn_id
local into = load_turn(keys)
if not into then
  return answer({result = 'not_found', turn = id})
end
local covered, ids, covers = {}, {}, tonumber(into.covers or 0)
local now = now_ms()
local clock = steady(now)
local deadline, limit
local function note_nearest(turn)
  if not turn.deadline then return end
  local own_deadline = at_clock(turn.deadline, turn.set_at, clock, now)
  local own_limit = at_clock(turn.limit, turn.limit_at, clock, now)
  deadline, limit = math.min(deadline or own_deadline, own_deadline), math.min(limit or own_limit, own_limit)
end
note_nearest(into)
for index, covered_id in ipairs(args_covered_ids) do
  local own = {turn = keys_covered_turns[index], due = keys.due, hist = keys_covered_hists[index],
    turnstats = keys.turnstats}
  local turn = load_turn(own)
  if not turn then
    return answer({result = 'not_found', turn = covered_id})
  end
  if turn.state == 'open' or turn.state == 'auto' then
    covered[#covered + 1] = {keys = own, turn = turn}
    ids[#ids + 1] = turn.id
    covers = covers + 1 + tonumber(turn.covers or 0)
    note_nearest(turn)
  elseif turn.merged_into ~= id then
    return answer({result = 'refused', turn = turn.id, state = turn.state, into = turn.merged_into})
  end
end
if #covered > 0 then
  if into.state ~= 'open' then
    return answer({result = 'refused', turn = id, state = into.state, into = into.merged_into})
  end
  for _, item in ipairs(covered) do
    close_turn(item.keys, item.turn.id, 'merged', now, 'merged_into', id)
    report(item.keys, item.turn, 'merged', now, {into = id})
  end
  redis.call('HDEL', keys.turn, 'limit_stood_at')
  set_due(keys, into, deadline, now, 'covers', covers, limit_fields(limit, now))
  report(keys, into, 'covers', now, {turns = ids})
end
return answer({result = 'merged', turn = id})
