-- Add a parent and its children, all of this queue: they wait in flat pending, it is in no set.
-- Rows that exist are written over.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] the parent's id
-- ARGV[2] the parent's payload
-- ARGV[3] a child's id, ARGV[4] its payload, and so on in pairs
-- Returns the number of children
-- Errors  EMQKIND

local parent, children = ARGV[1], (#ARGV - 2) / 2

for i = 1, #ARGV, 2 do
  if not is_job(ARGV[i]) then return WRONG_KIND end
end
for i = 3, #ARGV, 2 do
  local id, payload = ARGV[i], ARGV[i + 1]
  call('HSET', row_of(id), 'state', 'pending', 'attempts', 0, 'payload', payload, 'parent', parent)
  call('ZADD', pending, 0, id)
end
call('HSET', row_of(parent), 'state', 'awaiting_children', 'attempts', 0, 'payload', ARGV[2])
call('SET', row_of(parent) .. ':dependencies', children)
return children
