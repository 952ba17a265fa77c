-- Appends facts to one intake stream: one command for many entries, since packing each cost the host most of its time.
-- KEYS: intake stream.  ARGV: the facts (JSON each).  Returns the stream's length.
for _, fact in ipairs(ARGV) do
  redis.call('XADD', KEYS[1], '*', 'm', fact)
end
return redis.call('XLEN', KEYS[1])
