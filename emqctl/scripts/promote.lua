-- Let scheduled jobs wait now.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:schedule ZSET, the set acted on
-- ARGV[1] flags, letters of: u only those that are due, f force, d dry run, p permissions were probed
-- ARGV[2...] per job: id, the `attempts` the caller saw ('' = any), ''
-- Returns one answer a job, in order (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local refused = refusal()
if refused then return refused end
local now = now_ms()

local function objection_to(job, seen)
  if job.type == 'hash' and is_held(job) then return 'flow-parent' end
  local reason = objection(job, 'scheduled', seen, 'schedule')
  if reason then return reason end
  return flagged('u') and tonumber(job.scores.schedule) > now and 'not-due' or nil
end

return each_job(2, function(id, seen)
  local job = look(id)
  local reason = objection_to(job, seen)
  if reason then return answer(job, 'skipped', reason) end

  local target = job.lane or pending
  local no = denial(job, {
    { 'ZADD', target, '0', id }, { 'ZREM', schedule, id }, { 'HSET', job.row, 'state', 'pending' },
    { 'HINCRBY', job.row, 'attempts', '1' },
  })
  if no then return no end

  local notes = waiting_notes(job.group)
  local must_fence = has_live_lock(job)
  if not dry then
    call('ZADD', target, 0, id)
    call('ZREM', schedule, id)
    call('HSET', job.row, 'state', 'pending')
    touch(job.group)
  end
  if must_fence then fence(job, notes) end
  return answer(job, 'moved', nil, job.lane and 'lane' or 'pending', notes)
end)
