-- Let rows say where their jobs stand.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:pending ZSET, one of the sets they may stand in
-- ARGV[1] flags, letters of: d dry run, p permissions were probed
-- ARGV[2...] per job: id, '', ''
-- Returns one answer a job, in order (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local WORDS = { pending = 'pending', lane = 'pending', active = 'active', schedule = 'scheduled', dead = 'dead' }

local refused = refusal()
if refused then return refused end

-- What waits for children is in no place, and in one by mistake: which of both is wrong a person has to say.
local function objection_to(job)
  if job.type == 'none' then return 'missing' end
  if job.type ~= 'hash' or (job.lane and not job.lane_is_set) then return 'wrong-type' end
  if job.state == 'awaiting_children' then return 'held' end
  if #job.places == 0 then return 'nowhere' end
  if #job.places > 1 then return 'two-places' end
  if not job.has_payload then return 'no-payload' end
  return job.state == WORDS[job.place] and 'same' or nil
end

return each_job(2, function(id)
  local job = look(id)
  local reason = objection_to(job)
  if reason then return answer(job, 'skipped', reason) end

  local write = { 'HSET', job.row, 'state', WORDS[job.place] }
  local no = denial(job, { write })
  if no then return no end
  if not dry then call(unpack(write)) end
  return answer(job, 'fixed')
end)
