-- flags: allow-oom
-- Run one write command on one key while Redis is full. A script because Redis refuses a plain SET or ZADD at
-- maxmemory, and one with allow-oom runs. Only for small, bounded writes that acknowledge, answer or free memory,
-- never for those that let more in.
-- keys: key
-- args:
--   command str: its name
--   *parts arg: the command's arguments after the key
-- returns: the command's reply.
return redis.call(arg_command, key_key, unpack(args_parts))
