-- Start the oldest jobs of flat pending under one deadline.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] most jobs
-- ARGV[2] lease, ms
-- Returns a list of {id, payload, token}

local size, lease_ms = tonumber(ARGV[1]), tonumber(ARGV[2])

local deadline = now_ms() + lease_ms
local started = {}
local popped = call('ZPOPMIN', pending, size)
for i = 1, #popped, 2 do
  started[#started + 1] = start(popped[i], deadline)
end
return started
