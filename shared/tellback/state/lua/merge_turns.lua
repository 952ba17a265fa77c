-- Lets one open turn cover others of its conversation: they close, and its answer, fallback or silence is theirs as well. All
-- of them or none, and one script, so that no crash leaves a turn without somebody who owes it an answer. The turn that
-- covers takes the nearest deadline and limit of all: a merge makes no user wait longer.
-- KEYS: operation, the seven of lib/turn of the turn that covers, then turn and history of each one that is covered.
-- ARGV: id of the turn that covers, then ids of those that are covered.
-- Returns {"result": merged | gone | refused, "turn", "state", "into"}: of the first turn that stands in the way.
-- @include decision
-- @include turn
local replayed = replay()
if replayed then
  return replayed
end
local keys, id = turn_keys(2), ARGV[1]
local into = load_turn(keys)
if not into then
  return answer({result = 'gone', turn = id})
end
local covered, ids, count = {}, {}, tonumber(into.covers or 0)
local deadline, limit = into.deadline, into.limit
for index = 2, #ARGV do
  local own = {turn = KEYS[5 + 2 * index], due = keys.due, history = KEYS[6 + 2 * index], stats = keys.stats}
  local turn = load_turn(own)
  if not turn then
    return answer({result = 'gone', turn = ARGV[index]})
  end
  if turn.state == 'open' or turn.state == 'auto' then
    covered[#covered + 1] = {keys = own, turn = turn}
    ids[#ids + 1] = turn.id
    count = count + 1 + tonumber(turn.covers or 0)
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
    close_turn(item.keys, item.turn.id, 'merged', now)
    write_turn(item.keys, 'merged_into', id)
    tell(item.keys, item.turn, 'merged', now, {into = id})
  end
  write_turn(keys, 'deadline', deadline, 'limit', limit, 'covers', count)
  set_due(keys, id, deadline)
  tell(keys, into, 'covers', now, {turns = ids})
end
return answer({result = 'merged', turn = id})
