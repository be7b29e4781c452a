-- Start all jobs of the lane whose turn it is, as far as its limit allows.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] lease, ms
-- Returns a list of {id, payload, token, group}

local lease_ms = tonumber(ARGV[1])

local function all() return math.huge end

return serve_turn(all, lease_ms)
