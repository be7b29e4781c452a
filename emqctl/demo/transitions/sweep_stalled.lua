-- Let lapsed jobs wait again, except those that lapsed too often: they are dead.
-- A dead one's parent is not told, and its lane not rung.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] lapses that are death
-- ARGV[2] most jobs
-- Returns {{recovered id...}, {dead id...}}

local most_lapses, limit = tonumber(ARGV[1]), ARGV[2]

local recovered, died = {}, {}
for _, id in ipairs(due(active, limit)) do
  lapse(id)
  if call('HINCRBY', row_of(id), 'stalled', 1) < most_lapses then
    wait(id)
    recovered[#recovered + 1] = id
  else
    call('HSET', row_of(id), 'state', 'dead', 'last_error', 'stalled')
    call('ZADD', dead, 0, id)
    count('failed')
    died[#died + 1] = id
  end
end
return { recovered, died }
