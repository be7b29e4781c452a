-- Let lapsed jobs wait again, at most 100 of them.
--
-- KEYS[1] the queue's prefix
-- Returns how many

local ids = due(active, 100)
for _, id in ipairs(ids) do
  lapse(id)
  wait(id)
end
return #ids
