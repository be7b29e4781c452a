-- Start as many jobs of the lane whose turn it is as its weight says and its limit allows.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] lease, ms
-- Returns a list of {id, payload, token, group}

local lease_ms = tonumber(ARGV[1])

local function weight(group) return math.max(tonumber(call('HGET', gweight, group) or 1), 1) end

return serve_turn(weight, lease_ms)
