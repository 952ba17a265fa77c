-- Answers an overdue turn with a fallback, if nobody answered it up to this moment of the server's clock. State and outbox
-- entry in one script: fifty sweepers of one turn write one fallback.
-- KEYS: the seven of lib/turn; then turn and history of the delivery that is dropped, if one is.
-- ARGV: id, response (JSON), idempotency key of the delivery that is dropped or ''.
-- Returns 'fallback', 'waits' (the deadline lies ahead), 'closed' or 'gone', and the due set is right afterwards; or what
-- `crowded` of lib/room says (JSON), and then nothing was done.
-- @include clock
-- @include turn
-- @include room
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
local crowd = crowded(keys, ARGV[3], 8)
if crowd then
  return cjson.encode(crowd)
end
close_turn(keys, turn.id, 'fallback', now)
post(keys, turn, 'fallback', ARGV[2], now)
tell(keys, turn, 'fallback', now, {text = cjson.decode(ARGV[2]).text, overdue = now - tonumber(turn.deadline)})
observe(keys.stats, 'overdue', now - tonumber(turn.deadline))
return 'fallback'
