-- Take `lock` fields away that never expire and that no worker stands behind.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:active ZSET, in which a live lease would show
-- ARGV[1] flags, letters of: d dry run, p permissions were probed
-- ARGV[2...] per job: id, '', ''
-- Returns one answer a job, in order (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local refused = refusal()
if refused then return refused end
local now = now_ms()

local function objection_to(job)
  if job.type == 'none' then return 'missing' end
  if job.type ~= 'hash' then return 'wrong-type' end
  if not job.lock then return 'already' end
  if not job.has_payload then return 'no-payload' end -- of a row of nothing else nothing would be left
  if has_live_lock(job) then return 'locked' end
  return has_live_lease(job, now) and 'active' or nil
end

return each_job(2, function(id)
  local job = look(id)
  local reason = objection_to(job)
  if reason then return answer(job, 'skipped', reason) end

  local write = { 'HDEL', job.row, 'lock' }
  local no = denial(job, { write })
  if no then return no end
  if not dry then call(unpack(write)) end
  return answer(job, 'fixed')
end)
