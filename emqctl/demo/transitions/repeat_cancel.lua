-- Cancel a repeat.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] name
-- Returns 1 cancelled, 0 no such repeat

local name = ARGV[1]

call('DEL', record_of(name))
return call('ZREM', repeats, name)
