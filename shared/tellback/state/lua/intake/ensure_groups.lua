-- flags: allow-oom
-- Create the consumer groups that an intake stream lacks, from the first entry on. A script because Redis refuses a
-- plain XGROUP CREATE at maxmemory even if the group exists, and then no worker could start and free memory. Each
-- group is independent, so nothing here relies on atomicity.
-- keys: intake
-- args:
--   *groups str
-- returns: how many groups were created.
local created = 0
for _, group in ipairs(args_groups) do
  local reply = redis.pcall('XGROUP', 'CREATE', key_intake, group, '0', 'MKSTREAM')
  if not reply.err then
    created = created + 1
  elseif not string.find(reply.err, 'BUSYGROUP', 1, true) then
    return redis.error_reply(reply.err)
  end
end
return created
