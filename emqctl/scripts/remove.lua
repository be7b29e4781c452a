-- Take jobs out of the queue for good: place, row, subkeys, slot and ring, so that nothing stays for a claim to find.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] the set the jobs are expected in, or the prefix of their rows
-- ARGV[1] flags, letters of: f force, d dry run, p permissions were probed
-- ARGV[2] the place they must still be in ('pending' stands for a lane too, '' = wherever each is)
-- ARGV[3] a dedup id, released if it belongs to a removed job ('' = none)
-- ARGV[4...] per job: id, the `attempts` the caller saw ('' = any), the group of the lane it was met in ('' = none)
-- Returns one answer a job, in order (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local place, dedup = ARGV[2], ARGV[3]

local refused = refusal()
if refused then return refused end
local now = now_ms()

local function is_still_there(job)
  return place == '' or is_at(job, place, place == 'pending' and 'lane' or place)
end

-- Members without a row keep their place until somebody takes them out: the lane is the one they were met in.
local function look_where(id, met_in)
  local job = look(id)
  if job.type == 'none' and is_branded(met_in) and is_or_absent(lane_of(met_in), 'zset') then
    job.group, job.lane = met_in, lane_of(met_in)
    if call('ZSCORE', job.lane, id) then job.places[#job.places + 1] = 'lane' end
    job.place = job.places[1] or 'none'
  end
  return job
end

local function objection_to(job, seen)
  if job.type == 'none' and #job.places == 0 then return 'missing' end
  if not is_still_there(job) then return 'not-' .. place end
  if job.type == 'none' then return nil end
  if job.type ~= 'hash' or (job.lane and not job.lane_is_set) then return 'wrong-type' end
  if is_at(job, 'active') and job.group and not rules_of(job.group).has_sound_counter then return 'bad-row' end
  if job.parent then return 'flow-child' end
  if is_held(job) or count_of(job) > 0 then return 'flow-parent' end
  if seen ~= '' and seen ~= (job.attempts or '0') then return 'changed' end
  if force then return nil end
  if has_live_lock(job) then return 'locked' end
  if has_live_lease(job, now) then return 'active' end
  return #job.places == 0 and 'nowhere' or nil
end

return each_job(4, function(id, seen, met_in)
  local job = look_where(id, met_in)
  local reason = objection_to(job, seen)
  if reason then return answer(job, 'skipped', reason) end

  local writes = { { 'DEL', job.row }, { 'HINCRBY', gactive, '', '1' }, { 'HDEL', gactive, '' } }
  for _, each in ipairs(job.places) do writes[#writes + 1] = { 'ZREM', SET_OF[each] or job.lane, id } end
  local no = denial(job, writes)
  if no then return no end

  local notes = {}
  if job.type == 'none' then notes[1] = 'dangling' end
  local was_active = is_at(job, 'active')
  local owner = dedup ~= '' and type_of(dedup_of(dedup)) == 'string' and call('GET', dedup_of(dedup))
  local points_here = owner == id
  if points_here then notes[#notes + 1] = 'dedup-released' end
  if not dry then
    for _, each in ipairs(job.places) do call('ZREM', SET_OF[each] or job.lane, id) end
    call('DEL', job.row, unpack(keys_below(job.row)))
    if points_here then call('DEL', dedup_of(dedup)) end
    if job.group and was_active and job.type == 'hash' then slot_back(job.group) end
    touch(job.lane and job.group or nil)
  end
  return answer(job, 'removed', nil, 'none', notes)
end)
