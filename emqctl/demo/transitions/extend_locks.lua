-- Move the deadlines of many leases.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] lease, ms
-- ARGV[2] job id, ARGV[3] its token, and so on in pairs
-- Returns the ids whose lease was not moved

local deadline = now_ms() + tonumber(ARGV[1])
local lost = {}
for i = 2, #ARGV, 2 do
  local id, token = ARGV[i], ARGV[i + 1]
  if call('HGET', row_of(id), 'attempts') == token then
    call('ZADD', active, deadline, id)
  else
    lost[#lost + 1] = id
  end
end
return lost
