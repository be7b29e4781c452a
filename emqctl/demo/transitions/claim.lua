-- Start the oldest job of flat pending, whatever its group.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] lease, ms
-- Returns {id, payload, token}, or {} when nothing waits

local lease_ms = tonumber(ARGV[1])

local id = call('ZPOPMIN', pending)[1]
return id and start(id, now_ms() + lease_ms) or {}
