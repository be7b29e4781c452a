-- Move the deadline of a lease; a job that is not in flight is put among those that are.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] job id
-- ARGV[2] token
-- ARGV[3] lease, ms
-- Returns 1, or -1 no such job
-- Errors  EMQSTALE

local id, token, lease_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])

local attempts = call('HGET', row_of(id), 'attempts')
if not attempts then return -1 end
if attempts ~= token then return stale('extend token mismatch') end
call('ZADD', active, now_ms() + lease_ms, id)
return 1
