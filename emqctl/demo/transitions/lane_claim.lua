-- Start one job of the lane whose turn it is; trusts the ring, pause and limit are not asked again.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] lease, ms
-- Returns {id, payload, token, group}, or {} when the ring or that lane is empty

local lease_ms = tonumber(ARGV[1])

local group = call('LMOVE', ring, ring, 'LEFT', 'RIGHT')
return group and serve_lane(group, 1, lease_ms)[1] or {}
