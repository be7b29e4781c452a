-- Cut children's links to parents of this queue that have no row: else a parent without payload would appear.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:pending ZSET, one of the sets they may stand in
-- ARGV[1] flags, letters of: d dry run, p permissions were probed
-- ARGV[2...] per job: id, '', ''
-- Returns one answer a job, in order (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local refused = refusal()
if refused then return refused end

local function objection_to(job)
  if job.type == 'none' then return 'missing' end
  if job.type ~= 'hash' then return 'wrong-type' end
  if not job.parent then return 'already' end
  if not is_branded(job.parent) then return 'bad-row' end
  if job.parent_queue and job.parent_queue ~= OWN_QUEUE then return 'cross-queue' end
  return type_of(row_of(job.parent)) ~= 'none' and 'parent-exists' or nil
end

return each_job(2, function(id)
  local job = look(id)
  local reason = objection_to(job)
  if reason then return answer(job, 'skipped', reason) end

  local write = { 'HDEL', job.row, 'parent', 'parent_queue', 'parent_policy' }
  local no = denial(job, { write })
  if no then return no end
  if not dry then call(unpack(write)) end
  return answer(job, 'fixed')
end)
