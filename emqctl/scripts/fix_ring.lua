-- Put lanes on the ring that can be served, once each, and take off those that cannot.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:ring LIST
-- ARGV[1] flags, letters of: d dry run, p permissions were probed
-- ARGV[2...] per lane: its group, '', ''
-- Returns one answer a lane, in order (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local refused = refusal()
if refused then return refused end

local function times_on_ring()
  local times, size = {}, call('LLEN', ring)
  for at = 0, size - 1, 1000 do
    for _, group in ipairs(call('LRANGE', ring, at, at + 999)) do times[group] = (times[group] or 0) + 1 end
  end
  return times
end

local times = times_on_ring()

local function objection_to(group)
  if not is_or_absent(lane_of(group), 'zset') then return 'wrong-type' end
  if not has_sound_counters(group) then return 'bad-lane' end
  local servable = call('ZCARD', lane_of(group)) > 0 and not rules_of(group).is_paused and has_room(group)
  return (times[group] or 0) == (servable and 1 or 0) and 'already' or nil
end

return each_job(2, function(group)
  local lane, often = { place = 'none', group = group }, times[group] or 0
  local reason = objection_to(group)
  if reason then return answer(lane, 'skipped', reason) end

  local no = denial(lane, {})
  if no then return no end
  if not dry then
    if often > 1 then call('LREM', ring, 1 - often, group) end -- counted from the end: the first stays
    touch(group)
  end
  return answer(lane, 'fixed')
end)
