-- Let scheduled jobs wait whose time has come, the longest overdue first.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] most jobs
-- Returns how many

local ids = due(schedule, ARGV[1])
for _, id in ipairs(ids) do
  call('ZREM', schedule, id)
  wait(id)
end
return #ids
