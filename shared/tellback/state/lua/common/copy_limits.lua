-- flags: allow-oom
-- Replace the limits of a team in a shard that is not its first. Atomic: no call meets the shard without its limits.
-- keys: /limits
-- args:
--   *fields text: names and values
-- returns: 1.
redis.call('DEL', key_limits)
redis.call('HSET', key_limits, unpack(args_fields))
return 1
