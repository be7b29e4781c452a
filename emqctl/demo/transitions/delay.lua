-- Put a job in flight off; its lane's slot is not given back.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] job id
-- ARGV[2] token
-- ARGV[3] delay, ms
-- Returns 1
-- Errors  EMQKIND, EMQSTALE

local id, token, delay_ms = ARGV[1], ARGV[2], tonumber(ARGV[3])

if not is_job(id) then return WRONG_KIND end
local attempts = call('HGET', row_of(id), 'attempts')
if not attempts then return stale('job gone') end
if attempts ~= token then return stale('delay token mismatch') end

call('ZREM', active, id)
call('HSET', row_of(id), 'state', 'scheduled')
call('ZADD', schedule, now_ms() + delay_ms, id)
return 1
