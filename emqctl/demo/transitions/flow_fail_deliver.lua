-- Tell a parent of this queue that a child of another is dead; a second time changes nothing.
--
-- KEYS[1] the prefix of the parent's queue
-- ARGV[1] the parent's id
-- ARGV[2] the child's id
-- ARGV[3] policy: `id` the parent goes on without it, anything else it dies too
-- ARGV[4] the child's error
-- Returns 1

local parent, child, policy, reason = unpack(ARGV)

if policy == 'id' then
  if call('HSETNX', row_of(parent) .. ':unsuccessful', child, reason) == 1 then count_down(parent) end
elseif call('HSETNX', row_of(parent) .. ':failed', child, reason) == 1 then
  fail_parent(parent)
end
return 1
