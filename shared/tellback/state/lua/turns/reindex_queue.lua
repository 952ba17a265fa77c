-- flags: allow-oom
-- Put a conversation that has deliveries back into its channel's index if it is missing. Transports read only the
-- index. Atomic: a conversation whose last delivery is settled at this moment must not come back.
-- keys: out, queue, /clock
-- args:
--   conversation str
-- returns: 1 if the conversation was missing, else 0.
-- @include steady
-- @include outbox
if redis.call('EXISTS', key_queue) == 0 or redis.call('ZSCORE', key_out, arg_conversation) then
  return 0
end
schedule(key_out, key_queue, arg_conversation, due_now(now_ms()))
return 1
