-- Bring dead jobs back to where they wait: their own lane if they have a group, else flat pending.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:dead ZSET, the set acted on
-- ARGV[1] flags, letters of: f force · r reset attempts · d dry run · p permissions were probed
-- ARGV[2...] per job: id, the `attempts` the caller saw ('' = any), '1' if its parent in another queue is known to wait
-- Returns one answer a job, in order (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local flags = ARGV[1]
local force, reset, dry = flags:find('f') ~= nil, flags:find('r') ~= nil, flags:find('d') ~= nil

local refused = wrong_type() or cannot_tell_permissions(dry or flags:find('p'))
if refused then return refused end

local function objection_to(job, seen, untold)
  local reason = objection(job, 'dead', force, seen)
  if reason then return reason end
  if count_of(job) > 0 then return 'flow-parent' end
  if job.parent and job.parent_queue and job.parent_queue ~= OWN_QUEUE then
    return not untold and 'cross-queue' or nil
  end
  return job.parent and flow_objection(job) or nil
end

local function writes_of(job, target)
  return {
    { 'ZADD', target, '0', job.id }, { 'ZREM', dead, job.id }, { 'HSET', job.row, 'state', 'pending' },
    { 'HDEL', job.row, 'stalled' }, { 'HINCRBY', job.row, 'attempts', '1' }, { 'RPUSH', ring, '' },
    { 'LREM', ring, '0', '' }, { 'LPUSH', wake, '1' }, { 'LTRIM', wake, '0', '63' },
  }
end

-- Its old worker may still run: its settle, or the next beat of its lease, must be refused.
local function must_fence(job) return job.parent ~= false or has_live_lock(job) end

local function may_still_run(job)
  return (job.last_error == 'stalled' and job.stalled) or (job.parent and true)
end

local function requeue(id, seen, untold)
  local job = look(id)
  local reason = objection_to(job, seen, untold)
  if not reason and reset and not force and may_still_run(job) then reason = 'may-still-run' end
  if reason then return answer(job, 'skipped', reason) end

  local target = job.lane or pending
  local command = denied(writes_of(job, target))
  if command then return answer(job, 'failed', 'denied', nil, { command }) end

  local notes = waiting_notes(job.group)
  local fence = not reset and must_fence(job)
  if fence then notes[#notes + 1] = 'fenced' end
  if not dry then
    call('ZADD', target, 0, id) -- added first: whatever goes wrong, the id is somewhere
    call('ZREM', dead, id)
    call('HDEL', job.row, 'last_error', 'stalled')
    call('HSET', job.row, 'state', 'pending')
    if reset then call('HSET', job.row, 'attempts', 0) end
    if fence then call('HINCRBY', job.row, 'attempts', 1) end
    touch(job.group)
  end
  return answer(job, 'moved', nil, job.lane and 'lane' or 'pending', notes)
end

local answers = {}
for at = 2, #ARGV, 3 do
  answers[#answers + 1] = requeue(ARGV[at], ARGV[at + 1], ARGV[at + 2] == '1')
end
set_rings()
return answers
