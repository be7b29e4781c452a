-- Take jobs whose lease has lapsed from their workers: back to where they wait.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:active ZSET, the set acted on
-- ARGV[1] flags, letters of: f force, d dry run, p permissions were probed
-- ARGV[2...] per job: id, the `attempts` the caller saw ('' = any), ''
-- Returns one answer a job, in order (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local refused = refusal()
if refused then return refused end
local now = now_ms()

return each_job(2, function(id, seen)
  local job = look(id)
  local deadline = job.type ~= 'none' and tonumber(job.scores.active or 0) or 0
  if deadline > now then
    return answer(job, 'skipped', 'not-lapsed', nil, { string.format('%.0f ms left', deadline - now) })
  end
  local reason = objection(job, 'active', seen, 'active')
  if reason then return answer(job, 'skipped', reason) end

  local target = job.lane or pending
  local no = denial(job, {
    { 'ZADD', target, '0', id }, { 'ZREM', active, id }, { 'HSET', job.row, 'state', 'pending' },
    { 'HINCRBY', job.row, 'attempts', '1' }, { 'HINCRBY', gactive, '', '1' }, { 'HDEL', gactive, '' },
  })
  if no then return no end

  local notes = waiting_notes(job.group)
  local must_fence = job.parent or has_live_lock(job)
  if not dry then
    call('ZADD', target, 0, id)
    call('ZREM', active, id)
    call('HSET', job.row, 'state', 'pending')
    if job.group then slot_back(job.group) end
  end
  -- a child that completes between this and its next claim is not counted: its parent would wait for ever
  if must_fence then fence(job, notes) end
  return answer(job, 'moved', nil, job.lane and 'lane' or 'pending', notes)
end)
