-- flags: allow-oom
-- Merge open turns of a conversation into one, which covers them: they close, and its answer, fallback or silence is
-- theirs too. The covering turn gets the nearest deadline and limit of all, and a merge makes no user wait longer.
-- Atomic: all merge or none, and no crash leaves a turn that nobody owes an answer.
-- keys: operation, turn, due, out, queue, channels, hist, turnstats, clock, *covered_turns, *covered_hists
-- args:
--   turn_id str: of the covering turn
--   *covered_ids str
-- returns: {"result": merged | not_found | refused, "turn", "state", "into"}; the last three describe the first turn
--   that prevents the merge.
-- @include decision
-- @include turn
local replayed = replay()
if replayed then
  return replayed
end
local keys, id = turn_keys(), arg_turn_id
local into = load_turn(keys)
if not into then
  return answer({result = 'not_found', turn = id})
end
local covered, ids, covers = {}, {}, tonumber(into.covers or 0)
local deadline, limit = into.deadline, into.limit
for index, covered_id in ipairs(args_covered_ids) do
  local own = {turn = keys_covered_turns[index], due = keys.due, history = keys_covered_hists[index],
    stats = keys.stats}
  local turn = load_turn(own)
  if not turn then
    return answer({result = 'not_found', turn = covered_id})
  end
  if turn.state == 'open' or turn.state == 'auto' then
    covered[#covered + 1] = {keys = own, turn = turn}
    ids[#ids + 1] = turn.id
    covers = covers + 1 + tonumber(turn.covers or 0)
    deadline = math.min(tonumber(deadline or 0), tonumber(turn.deadline or deadline or 0))
    limit = math.min(tonumber(limit or 0), tonumber(turn.limit or limit or 0))
  elseif turn.merged_into ~= id then
    return answer({result = 'refused', turn = turn.id, state = turn.state, into = turn.merged_into})
  end
end
if #covered > 0 then
  if into.state ~= 'open' then
    return answer({result = 'refused', turn = id, state = into.state, into = into.merged_into})
  end
  local now = now_ms()
  for _, item in ipairs(covered) do
    close_turn(item.keys, item.turn.id, 'merged', now, 'merged_into', id)
    report(item.keys, item.turn, 'merged', now, {into = id})
  end
  set_due(keys, into, deadline, now, 'limit', limit, 'covers', covers)
  report(keys, into, 'covers', now, {turns = ids})
end
return answer({result = 'merged', turn = id})
