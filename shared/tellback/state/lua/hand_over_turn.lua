-- Gives an open turn to another host. Obligation and deadline stay as they are; the other host finds the turn in its list.
-- KEYS: operation, the seven of lib/turn, turns handed over to the other host.  ARGV: the other host, how many the list holds.
-- Returns {"state", "handed"}: `handed` is whether the turn belongs to the other host now.
-- @include decision
-- @include turn
local replayed = replay()
if replayed then
  return replayed
end
local keys, handed = turn_keys(2), KEYS[9]
local turn = load_turn(keys)
if not turn then
  return answer({state = 'gone', handed = false})
end
if turn.state ~= 'open' then
  return answer({state = turn.state, handed = false})
end
local now = now_ms()
write_turn(keys, 'host', ARGV[1], 'handed_at', now)
redis.call('ZADD', handed, now, turn.id)
redis.call('ZREMRANGEBYRANK', handed, 0, -tonumber(ARGV[2]) - 1)
redis.call('PEXPIRE', handed, TURN_LIFE)
tell(keys, turn, 'handed_over', now, {host = ARGV[1], by = turn.host})
return answer({state = 'open', handed = true})
