-- Give jobs that wait, are scheduled or dead to another lane.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:g:<group>:pending ZSET, the lane they are given to
-- ARGV[1] flags, letters of: f force, d dry run, p permissions were probed
-- ARGV[2] that lane's group, a branded id
-- ARGV[3...] per job: id, the `attempts` the caller saw ('' = any), ''
-- Returns one answer a job, in order (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local group = ARGV[2]
local lane = lane_of(group)

local refused = refusal()
if refused then return refused end
if not is_or_absent(lane, 'zset') then return redis.error_reply('EMQTYPE ' .. lane .. ' ' .. type_of(lane) .. ' zset') end

local function objection_to(job, seen)
  if job.type == 'hash' and is_held(job) then return 'held' end
  if job.type ~= 'none' and #job.places == 1 and job.place == 'active' then return 'active' end
  local reason = objection(job, 'movable', seen, 'pending', 'lane', 'schedule', 'dead')
  if reason then return reason end
  if not has_sound_counters(group) then return 'bad-lane' end
  if job.place == 'dead' and count_of(job) > 0 then return 'flow-parent' end
  if not job.group then return not force and 'flat' or nil end
  return job.group == group and job.place ~= 'pending' and 'same-lane' or nil
end

return each_job(3, function(id, seen)
  local job = look(id)
  local reason = objection_to(job, seen)
  if reason then return answer(job, 'skipped', reason) end

  local waits = job.place == 'pending' or job.place == 'lane'
  local source = job.place == 'lane' and job.lane or pending
  local writes = { { 'HSET', job.row, 'group', group }, { 'HINCRBY', job.row, 'attempts', '1' } }
  if waits then
    writes[3], writes[4] = { 'ZADD', lane, '0', id }, { 'ZREM', source, id }
  end
  local no = denial(job, writes)
  if no then return no end

  local left, notes = job.group, waits and waiting_notes(group) or {}
  local must_fence = has_live_lock(job)
  if not dry then
    if waits then
      call('ZADD', lane, 0, id)
      call('ZREM', source, id)
    end
    call('HSET', job.row, 'group', group)
    touch(left)
    touch(waits and group or nil)
  end
  if must_fence then fence(job, notes) end
  job.group = group
  return answer(job, 'moved', nil, waits and 'lane' or job.place, notes)
end)
