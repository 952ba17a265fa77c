-- flags: allow-oom
-- Remove a member from an index unless its key exists. Atomic: the caller saw no key, but if one was written since,
-- removing the member would leave that key in no index: a plain ZREM left 48 of 60 conversations with an unseen answer.
-- keys: index, key
-- args:
--   member text
-- returns: 1 if the member was removed, else 0.
if redis.call('EXISTS', key_key) == 1 then
  return 0
end
return redis.call('ZREM', key_index, arg_member)
