-- Answers an overdue turn with a fallback, if nobody answered it up to this moment of the server's clock. State and outbox
-- entry in one script: fifty sweepers of one turn write one fallback.
-- KEYS: the seven of lib/turn.  ARGV: id, response (JSON).
-- Returns 'fallback', 'waits' (the deadline lies ahead), 'closed' or 'gone'; the due set is right afterwards.
-- @include clock
-- @include turn
local keys = turn_keys(1)
local turn = load_turn(keys)
if not turn or (turn.state ~= 'open' and turn.state ~= 'finishing') then
  redis.call('ZREM', keys.due, ARGV[1])
  return turn and 'closed' or 'gone'
end
local now = now_ms()
if tonumber(turn.deadline) > now then
  set_due(keys, turn.id, turn.deadline)
  return 'waits'
end
close_turn(keys, turn.id, 'fallback', now)
post(keys, turn, 'fallback', ARGV[2], now)
tell(keys, turn, 'fallback', now, {text = cjson.decode(ARGV[2]).text, overdue = now - tonumber(turn.deadline)})
observe(keys.stats, 'overdue', now - tonumber(turn.deadline))
return 'fallback'
