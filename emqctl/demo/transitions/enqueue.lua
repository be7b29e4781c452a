-- Let a new job wait in flat pending.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] job id
-- ARGV[2] payload
-- Returns 1 enqueued, 0 the row exists and stays as it is
-- Errors  EMQKIND

local id, payload = ARGV[1], ARGV[2]

if not is_job(id) then return WRONG_KIND end
if not create(id, payload, 'pending') then return 0 end
call('ZADD', pending, 0, id)
return 1
