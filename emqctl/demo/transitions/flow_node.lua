-- Add one node of a flow that is deep or spans queues: a leaf waits in flat pending, a parent is in no set.
-- A row that exists is written over.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] job id
-- ARGV[2] payload
-- ARGV[3] number of children, 0 = a leaf
-- ARGV[4] its parent's id, '' = the root
-- ARGV[5] its parent's queue, '' = this one
-- Returns 1
-- Errors  EMQKIND

local id, payload, children, parent, parent_queue = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4], ARGV[5]

if not is_job(id) then return WRONG_KIND end
local row = row_of(id)
call('HSET', row, 'attempts', 0, 'payload', payload)
if parent ~= '' then call('HSET', row, 'parent', parent) end
if parent_queue ~= '' then call('HSET', row, 'parent_queue', parent_queue) end
if children > 0 then
  call('HSET', row, 'state', 'awaiting_children')
  call('SET', row .. ':dependencies', children)
else
  call('HSET', row, 'state', 'pending')
  call('ZADD', pending, 0, id)
end
return 1
