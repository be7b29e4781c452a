-- Let lapsed jobs of one lane wait again; lapsed jobs of others use up the limit.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] group
-- ARGV[2] most lapsed jobs looked at
-- Returns how many were let

local group, limit = ARGV[1], ARGV[2]

local recovered = 0
for _, id in ipairs(due(active, limit)) do
  if call('HGET', row_of(id), 'group') == group then
    lapse(id)
    wait(id)
    recovered = recovered + 1
  end
end
return recovered
