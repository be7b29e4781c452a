-- Take waiting or scheduled jobs out of service without losing them: into the dead set.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:dead ZSET, the set they go to
-- ARGV[1] flags, letters of: f force, d dry run, p permissions were probed
-- ARGV[2] what becomes the job's `last_error`
-- ARGV[3...] per job: id, the `attempts` the caller saw ('' = any), ''
-- Returns one answer a job, in order (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local error_text = ARGV[2]

local refused = refusal()
if refused then return refused end

local function objection_to(job, seen)
  local only = job.type ~= 'none' and #job.places == 1 and job.place
  if only == 'dead' then return 'already' end
  if only == 'active' then return 'active' end
  local reason = objection(job, 'waiting', seen, 'pending', 'lane', 'schedule')
  if reason then return reason end
  if count_of(job) > 0 then return 'flow-parent' end
  if not job.parent then return nil end
  -- a parent that still counts on this child would wait for ever; of one in another queue nobody here can tell
  local abroad = job.parent_queue and job.parent_queue ~= OWN_QUEUE
  return (abroad or flow_objection(job) == nil) and 'flow-child' or nil
end

local function set_of(job)
  if job.place == 'lane' then return job.lane end
  return job.place == 'schedule' and schedule or pending
end

return each_job(3, function(id, seen)
  local job = look(id)
  local reason = objection_to(job, seen)
  if reason then return answer(job, 'skipped', reason) end

  local source = set_of(job)
  local no = denial(job, {
    { 'ZADD', dead, '0', id }, { 'ZREM', source, id }, { 'HSET', job.row, 'state', 'dead' },
    { 'HINCRBY', job.row, 'attempts', '1' },
  })
  if no then return no end

  local notes = {}
  local must_fence = has_live_lock(job)
  if not dry then
    call('ZADD', dead, 0, id)
    call('ZREM', source, id)
    call('HSET', job.row, 'state', 'dead', 'last_error', error_text)
    touch(job.group)
  end
  if must_fence then fence(job, notes) end
  return answer(job, 'moved', nil, 'dead', notes)
end)
