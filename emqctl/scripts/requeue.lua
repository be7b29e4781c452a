-- Bring dead jobs back to where they wait: their own lane if they have a group, else flat pending.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:dead ZSET, the set acted on
-- ARGV[1] flags, letters of: f force, r reset attempts, d dry run, p permissions were probed
-- ARGV[2...] per job: id, the `attempts` the caller saw ('' = any), '1' if its parent in another queue is known to wait
-- Returns one answer a job, in order (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local reset = flagged('r')

local refused = refusal()
if refused then return refused end

local function objection_to(job, seen, untold)
  local reason = objection(job, 'dead', seen, 'dead')
  if reason then return reason end
  if count_of(job) > 0 then return 'flow-parent' end
  if job.parent and job.parent_queue and job.parent_queue ~= OWN_QUEUE then
    return not untold and 'cross-queue' or nil
  end
  return job.parent and flow_objection(job) or nil
end

-- Buried by a sweep, or dead without its parent being told: the worker that had it may be running still.
local function may_still_run(job) return (job.last_error == 'stalled' and job.stalled) or job.parent end

return each_job(2, function(id, seen, untold)
  local job = look(id)
  local reason = objection_to(job, seen, untold == '1')
  if not reason and reset and not force and may_still_run(job) then reason = 'may-still-run' end
  if reason then return answer(job, 'skipped', reason) end

  local target = job.lane or pending
  local no = denial(job, {
    { 'ZADD', target, '0', id }, { 'ZREM', dead, id }, { 'HSET', job.row, 'state', 'pending' },
    { 'HDEL', job.row, 'stalled' }, { 'HINCRBY', job.row, 'attempts', '1' },
  })
  if no then return no end

  local notes = waiting_notes(job.group)
  local must_fence = not reset and (job.parent or has_live_lock(job))
  if not dry then
    call('ZADD', target, 0, id) -- added first: whatever goes wrong, the id is somewhere
    call('ZREM', dead, id)
    call('HDEL', job.row, 'last_error', 'stalled')
    call('HSET', job.row, 'state', 'pending')
    if reset then call('HSET', job.row, 'attempts', 0) end
    touch(job.group)
  end
  if must_fence then fence(job, notes) end
  return answer(job, 'moved', nil, job.lane and 'lane' or 'pending', notes)
end)
