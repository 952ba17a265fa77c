-- Conversations of a channel whose first delivery may be taken now, longest waiting first.
-- KEYS: outbox of the channel.  ARGV: how many at most.  Returns conversation, time, conversation, time, ...
-- @include clock
return redis.call('ZRANGE', KEYS[1], '-inf', now_ms(), 'BYSCORE', 'LIMIT', 0, ARGV[1], 'WITHSCORES')
