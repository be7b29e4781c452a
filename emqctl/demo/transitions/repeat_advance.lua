-- Set the next run of a repeat; one whose record is gone leaves the set.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] name
-- ARGV[2] next run by the caller's clock, ms
-- Returns 1 advanced, 0 no such repeat

local name, next_ms = ARGV[1], ARGV[2]

if call('EXISTS', record_of(name)) == 0 then
  call('ZREM', repeats, name)
  return 0
end
call('ZADD', repeats, next_ms, name)
return 1
