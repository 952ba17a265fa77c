-- flags: allow-oom
-- Delete one stored fact of a bank: its text and its vector. The scores that signals gave it stay. Atomic: an event
-- counts once, and its entry leaves the intake with its effect.
-- keys: intake, +lease, factinfo, +facttext, +factvec, +factver, +factstamps, +factdeleted, +factset, +factseen,
--   +factseen_old, +factnextvec, +factnextset, /factbanks
-- args:
--   fence int
--   entries text: JSON array of the ids that leave the stream
--   event_id str
--   new_stamp str
--   fact_id str
--   bank str
-- returns: 'ok' | 'fenced'.
-- @include stored_facts

if fenced() then return 'fenced' end
ack()
if applied_before(arg_event_id) then return 'ok' end
drop_fact(redis.call('HGET', key_factinfo, 'kind'), arg_fact_id)
if redis.call('EXISTS', key_facttext) == 0 then  -- the last fact: the next one may use another model
  redis.call('DEL', key_factinfo, key_factstamps, key_factdeleted)
  redis.call('ZREM', key_factbanks, arg_bank)
end
return 'ok'
