-- Tell a parent of this queue that a child of another is done; a second time changes nothing.
--
-- KEYS[1] the prefix of the parent's queue
-- ARGV[1] the parent's id
-- ARGV[2] the child's id
-- ARGV[3] its result
-- Returns 1

local parent, child, result = ARGV[1], ARGV[2], ARGV[3]

if call('HSETNX', row_of(parent) .. ':processed', child, result) == 1 then count_down(parent) end
return 1
