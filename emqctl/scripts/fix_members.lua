-- Take members out of sets and lanes that stand for no job: ids without a row, names that are no ids.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:pending ZSET, one of the sets they may stand in
-- ARGV[1] flags, letters of: d dry run, p permissions were probed
-- ARGV[2...] per member: it, '', the group of the lane it was met in ('' = none)
-- Returns one answer a member, in order (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local refused = refusal()
if refused then return refused end

-- A row of any kind is a row; what is no id can have none that anybody would look for, unless it holds a payload.
local function objection_to(member)
  if member.type ~= 'none' and is_branded(member.id) then return 'has-row' end
  if member.type ~= 'none' and (member.type ~= 'hash' or member.has_payload) then return 'has-row' end
  return #member.places == 0 and 'already' or nil
end

return each_job(2, function(id, _, met_in)
  local member = look(id)
  local lane = is_branded(met_in) and lane_of(met_in)
  if lane and lane ~= member.lane and is_or_absent(lane, 'zset') and call('ZSCORE', lane, id) then
    member.group, member.lane = met_in, lane
    member.places[#member.places + 1] = 'lane'
    member.place = member.places[1]
  end
  local reason = objection_to(member)
  if reason then return answer(member, 'skipped', reason) end

  local writes = {}
  for i, place in ipairs(member.places) do writes[i] = { 'ZREM', SET_OF[place] or member.lane, id } end
  local no = denial(member, writes)
  if no then return no end

  if not dry then
    for _, write in ipairs(writes) do call(unpack(write)) end
    touch(is_at(member, 'lane') and member.group)
  end
  return answer(member, 'fixed', nil, 'none')
end)
