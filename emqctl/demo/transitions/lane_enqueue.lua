-- Let a new job wait in a lane.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] job id
-- ARGV[2] payload
-- ARGV[3] group
-- Returns 1 enqueued, 0 the row exists and stays as it is
-- Errors  EMQKIND

local id, payload, group = ARGV[1], ARGV[2], ARGV[3]

if not is_job(id) then return WRONG_KIND end
if not create(id, payload, 'pending') then return 0 end
call('HSET', row_of(id), 'group', group)
call('ZADD', lane_of(group), 0, id)
ring_if(group)
return 1
