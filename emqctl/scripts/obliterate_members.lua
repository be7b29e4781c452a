-- Take at most 25 members out of a set or of some lanes, each with all there is of it, in one step.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:meta HASH, by which the queue is paused
-- ARGV[1] flags, letters of: f force, p permissions were probed
-- ARGV[2] which: `repeat`, `schedule`, `pending`, `dead`, `active`, or `lane`
-- ARGV[3...] at most 25 groups of lanes; what names a lane goes with its last job
-- Returns how many members are left, then id and group ('' = none) of each job deleted; -1 alone, unless forced,
--         where jobs are in flight
-- Errors  EMQPROBE permissions unknown, EMQDENIED; nothing is written then. Never EMQTYPE

local SETS = { ['repeat'] = repeats, schedule = schedule, pending = pending, dead = dead, active = active }
local set, budget = SETS[ARGV[2]], 25
local left, deleted = 0, {}

local refused = cannot_tell_permissions()
if refused then return refused end
if not force and call('ZCARD', active) > 0 then return { -1 } end

local writes = { { 'UNLINK', row_of('') }, { 'UNLINK', record_of('') }, set and { 'ZREM', set, '' } }
for at = 3, #ARGV do
  writes[#writes + 1] = { 'ZREM', lane_of(ARGV[at]), '' }
  writes[#writes + 1] = { 'UNLINK', lane_of(ARGV[at]) }
end
local no = ring_denied or denied(writes)
if no then return redis.error_reply('EMQDENIED ' .. no) end

-- The lane of a group, deleted if it is none.
local function lane_or_none(group)
  local lane = lane_of(group)
  if not is_or_absent(lane, 'zset') then call('UNLINK', lane) end
  return lane
end

-- A counter that is no number cannot be counted down.
local function give_back(group)
  if not is_integer(call('HGET', gactive, group) or '0') then call('HDEL', gactive, group) end
  slot_back(group)
end

-- Take a job that was met in a set out of any other place, with its row and what hangs below.
local function delete_job(id, met_in)
  local row = row_of(id)
  local group = type_of(row) == 'hash' and call('HGET', row, 'group') or nil
  for _, place in ipairs({ schedule, pending, dead }) do call('ZREM', place, id) end
  if call('ZREM', active, id) == 1 and group then give_back(group) end
  if group then
    local lane = lane_or_none(group)
    if lane ~= met_in and call('ZREM', lane, id) == 1 then touch(group) end
  end
  call('UNLINK', row, unpack(keys_below(row)))
  deleted[#deleted + 1] = id
  deleted[#deleted + 1] = group or ''
end

local function delete_record(name) call('UNLINK', record_of(name)) end

local function take(from, delete)
  local members = budget > 0 and call('ZRANGE', from, 0, budget - 1) or {}
  for _, member in ipairs(members) do
    delete(member, from)
    call('ZREM', from, member)
  end
  budget = budget - #members
  left = left + call('ZCARD', from)
end

-- A lane without a job is to be named nowhere; what counts its jobs in flight stays while any are.
local function forget(group)
  call('LREM', ring, 0, group)
  call('SREM', paused, group)
  call('HDEL', glimit, group)
  call('HDEL', gweight, group)
  if call('EXISTS', active) == 0 then call('HDEL', gactive, group) end
end

if set then take(set, set == repeats and delete_record or delete_job) end
for at = 3, #ARGV do
  local lane = lane_or_none(ARGV[at])
  take(lane, delete_job)
  if call('EXISTS', lane) == 0 then forget(ARGV[at]) end
end
set_rings()
return { left, unpack(deleted) }
