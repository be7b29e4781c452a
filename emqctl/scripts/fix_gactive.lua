-- Let lanes' counters say how many of their jobs are in flight; put the ring right for them.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:gactive HASH, the counters
-- ARGV[1] flags, letters of: d dry run, p permissions were probed
-- ARGV[2...] per lane: its group, '', ''
-- Returns one answer a lane, in order (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local refused = refusal()
if refused then return refused end
local flying = in_flight()

local function objection_to(group, right)
  if not is_or_absent(lane_of(group), 'zset') then return 'wrong-type' end
  if not flying then return 'too-many-active' end
  return (call('HGET', gactive, group) or nil) == right and 'already' or nil
end

return each_job(2, function(group)
  local lane = { place = 'none', group = group }
  local right = flying and flying[group] and tostring(flying[group])
  local reason = objection_to(group, right)
  if reason then return answer(lane, 'skipped', reason) end

  local write = right and { 'HSET', gactive, group, right } or { 'HDEL', gactive, group }
  local no = denial(lane, { write })
  if no then return no end
  if not dry then
    call(unpack(write))
    touch(group)
  end
  return answer(lane, 'fixed')
end)
