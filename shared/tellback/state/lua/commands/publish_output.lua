-- Append pieces of a command's output to the stream that its followers read, and drop the oldest. Atomic: the check of
-- the newest number and the append are one step, and a piece that is sent twice is stored once.
-- keys: follow
-- args:
--   keep int: how many of the newest pieces
--   lifetime_ms int
--   *numbers int: of each piece, rising
--   *pieces text: JSON
-- returns: 'ok'.
local newest = redis.call('XREVRANGE', key_follow, '+', '-', 'COUNT', 1)[1]
local last = newest and tonumber(string.match(newest[1], '^%d+')) or 0
for i, number in ipairs(args_numbers) do
  if tonumber(number) > last then
    redis.call('XADD', key_follow, number .. '-0', 'piece', args_pieces[i])
  end
end
redis.call('XTRIM', key_follow, 'MAXLEN', arg_keep)
redis.call('PEXPIRE', key_follow, arg_lifetime_ms)
return 'ok'
