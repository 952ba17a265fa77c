-- flags: allow-oom
-- Evict the second oldest delivery of a conversation with too many. The loss is reported to its turn and to the history
-- of its session. Scripts that post cannot do so: only the queue shows which delivery it is, and they would need the
-- keys of its turn. Atomic: of several callers each evicts another one, and only while there are too many.
-- keys: queue, turn, hist, /turnstats
-- args:
--   channel str
--   conversation str
--   expected str: idempotency key of that delivery
-- returns: the delivery to evict next, as `surplus` of lib/outbox, or nil if there is none.
-- @include clock
-- @include outbox
-- @include history
-- @include delivery
local found, raw = surplus(key_queue)
if found and found.key == arg_expected then
  local delivery, error = cjson.decode(raw), 'the outbox of the conversation was full'
  redis.call('LREM', key_queue, 1, raw)
  mark(delivery, 'outcome', cjson.encode({attempted = false, permanent = true, error = error}))
  note(delivery, arg_channel, arg_conversation, 'dropped', now_ms(), {error = error})
  found = surplus(key_queue)
end
return found and cjson.encode(found)
