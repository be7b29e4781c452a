-- Register a repeat under a name that is not taken.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] name
-- ARGV[2] interval, ms
-- ARGV[3] payload of each occurrence
-- ARGV[4] first run by the caller's clock, ms
-- Returns 1 registered, 0 the name is taken

local name, every_ms, template, first_ms = ARGV[1], ARGV[2], ARGV[3], ARGV[4]

if call('EXISTS', record_of(name)) == 1 then return 0 end
call('HSET', record_of(name), 'every_ms', every_ms, 'template', template)
call('ZADD', repeats, first_ms, name)
return 1
