-- Adds pieces of a command's output to those that its followers read; the oldest go. A piece sent twice stands once.
-- KEYS: 1 follow
-- ARGV: 1 how many of the newest to keep, 2 lifetime in ms, then of each piece its number (rising) and its JSON
-- Returns 'ok'
local newest = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)[1]
local last = newest and tonumber(string.match(newest[1], '^%d+')) or 0
for i = 3, #ARGV, 2 do
  if tonumber(ARGV[i]) > last then
    redis.call('XADD', KEYS[1], ARGV[i] .. '-0', 'piece', ARGV[i + 1])
  end
end
redis.call('XTRIM', KEYS[1], 'MAXLEN', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return 'ok'
