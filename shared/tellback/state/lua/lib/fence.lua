-- The fence of a stream's consumer. Scripts declare the key lease and the argument fence, of the consumer.

-- True if another consumer may hold the stream; then return before any read that counts, and any write.
local function fenced()
  return redis.call('GET', key_lease) ~= arg_fence
end
