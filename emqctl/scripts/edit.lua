-- Replace a job's payload, if it still is what the caller saw.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:job:<id> HASH, the row acted on
-- ARGV[1] flags, letters of: f force, d dry run, p permissions were probed
-- ARGV[2] job id
-- ARGV[3] the payload the caller saw
-- ARGV[4] the payload it becomes
-- Returns one answer (see change.lua)
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local id, old, new = ARGV[2], ARGV[3], ARGV[4]

local refused = refusal()
if refused then return refused end
local job = look(id)

local function objection_to()
  if job.type == 'none' then return 'missing' end
  if job.type ~= 'hash' then return 'wrong-type' end
  if not job.has_payload then return 'no-payload' end
  local payload = call('HGET', job.row, 'payload')
  if payload == new then return 'same' end
  if payload ~= old then return 'changed' end
  if force then return nil end
  if has_live_lock(job) then return 'locked' end
  return has_live_lease(job, now_ms()) and 'active' or nil
end

local reason = objection_to()
if reason then return { answer(job, 'skipped', reason) } end
local no = denial(job, { { 'HSET', job.row, 'payload', '' } })
if no then return { no } end
if not dry then call('HSET', job.row, 'payload', new) end
return { answer(job, 'edited') }
