-- Keep a new job until its time.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] job id
-- ARGV[2] payload
-- ARGV[3] `at` or `in`
-- ARGV[4] run-at by the caller's clock, or delay by the server's, ms
-- Returns 1 scheduled, 0 the row exists and stays as it is
-- Errors  EMQKIND

local id, payload, from, ms = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])

if not is_job(id) then return WRONG_KIND end
if not create(id, payload, 'scheduled') then return 0 end
call('ZADD', schedule, from == 'in' and now_ms() + ms or ms, id)
return 1
