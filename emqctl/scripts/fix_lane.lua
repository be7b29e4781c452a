-- Let jobs that have a lane and wait in flat pending wait in their lane.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:pending ZSET, the set they leave
-- ARGV[1] flags, letters of: d dry run, p permissions were probed
-- ARGV[2...] per job: id, '', ''
-- Returns one answer a job, in order (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local refused = refusal()
if refused then return refused end

return each_job(2, function(id)
  local job = look(id)
  local reason = objection(job, 'pending', '', 'pending') or (not job.group and 'flat')
  if reason then return answer(job, 'skipped', reason) end

  local no = denial(job, { { 'ZADD', job.lane, '0', id }, { 'ZREM', pending, id } })
  if no then return no end

  local notes = waiting_notes(job.group)
  if not dry then
    call('ZADD', job.lane, 0, id)
    call('ZREM', pending, id)
    touch(job.group)
  end
  return answer(job, 'fixed', nil, 'lane', notes)
end)
