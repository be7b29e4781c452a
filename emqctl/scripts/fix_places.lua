-- Keep of a job that stands in several places the one its row names.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:dead ZSET, one of the sets they may stand in
-- ARGV[1] flags, letters of: d dry run, p permissions were probed
-- ARGV[2...] per job: id, '', the group of a lane it was met in ('' = none)
-- Returns one answer a job, in order (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local PLACES_OF = { pending = { 'lane', 'pending' }, active = { 'active' }, scheduled = { 'schedule' }, dead = { 'dead' } }

local refused = refusal()
if refused then return refused end
local now = now_ms()
local flying = in_flight()

-- The place to keep: the one the state names, of lane and flat pending the lane.
local function right_place(job)
  for _, place in ipairs(PLACES_OF[job.state] or {}) do
    if is_at(job, place) then return place end
  end
end

local function objection_to(job, copies)
  if job.type == 'none' then return 'missing' end
  if job.type ~= 'hash' or (job.lane and not job.lane_is_set) then return 'wrong-type' end
  if is_bad_row(job) then return 'bad-row' end
  if not job.has_payload then return 'no-payload' end
  if #job.places + copies < 2 then return 'already' end
  if job.parent then return 'flow-child' end
  if count_of(job) > 0 then return 'flow-parent' end
  if has_live_lock(job) then return 'locked' end
  if has_live_lease(job, now) then return 'active' end
  if not right_place(job) then return 'state-names-none' end
  if job.group and is_at(job, 'active') and right_place(job) ~= 'active' and not flying then return 'too-many-active' end
end

-- A copy in flight may never have been counted (a beat adds one): its lane is counted anew.
local function recount(group)
  flying[group] = flying[group] - 1
  if flying[group] > 0 then
    call('HSET', gactive, group, flying[group])
  else
    call('HDEL', gactive, group)
  end
end

return each_job(2, function(id, _, met_in)
  local job = look(id)
  local foreign = is_branded(met_in) and met_in ~= job.group and lane_of(met_in)
  if foreign and not (is_or_absent(foreign, 'zset') and call('ZSCORE', foreign, id)) then foreign = false end
  local reason = objection_to(job, foreign and 1 or 0)
  if reason then return answer(job, 'skipped', reason) end

  local keep, removals = right_place(job), {}
  for _, place in ipairs(job.places) do
    if place ~= keep then removals[#removals + 1] = { 'ZREM', SET_OF[place] or job.lane, id } end
  end
  if foreign then removals[#removals + 1] = { 'ZREM', foreign, id } end
  local no = denial(job, removals) or denial(job, { { 'HSET', gactive, '', '1' }, { 'HDEL', gactive, '' } })
  if no then return no end

  if not dry then
    for _, removal in ipairs(removals) do call(unpack(removal)) end
    if job.group and keep ~= 'active' and is_at(job, 'active') then recount(job.group) end
    touch(job.group)
    touch(foreign and met_in)
  end
  return answer(job, 'fixed', nil, keep)
end)
