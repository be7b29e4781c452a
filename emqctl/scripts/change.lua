-- Put in front of every change, after look.lua: the ring of the lanes it touches, and the answer for each job.

local touched, touched_order = {}, {}

-- Remember a lane whose place on the ring is to be put right at the end of the call.
local function touch(group)
  if group and not touched[group] then
    touched[group] = true
    touched_order[#touched_order + 1] = group
  end
end

-- A lane with a limit that is no number, or a counter that cannot be held against it, has no room.
local function has_room(group)
  local limit = rules_of(group).limit
  if not limit then return true end
  local most, flying = tonumber(limit), tonumber(call('HGET', gactive, group) or 0)
  return most ~= nil and flying ~= nil and flying < most
end

local function on_ring()
  local groups, size = {}, call('LLEN', ring)
  for at = 0, size - 1, 1000 do
    for _, group in ipairs(call('LRANGE', ring, at, at + 999)) do groups[group] = true end
  end
  return groups
end

-- Put each touched lane on the ring, with a wake-up, exactly if it can be served. The ring is read once.
local function set_rings()
  if #touched_order == 0 then return end
  local standing = on_ring()
  for _, group in ipairs(touched_order) do
    local waiting, is_other = answer_of('zset', 'ZCARD', lane_of(group))
    local servable = not is_other and waiting > 0 and not rules_of(group).is_paused and has_room(group)
    if servable and not standing[group] then
      call('RPUSH', ring, group)
      call('LPUSH', wake, '1')
      call('LTRIM', wake, 0, WAKE_TOKENS - 1)
    elseif not servable and standing[group] then
      call('LREM', ring, 0, group)
    end
  end
end

local queue_is_paused

-- Why a job that was just let wait will not be served yet.
local function waiting_notes(group)
  local notes = {}
  if queue_is_paused == nil then queue_is_paused = call('HEXISTS', meta, 'paused') == 1 end
  if queue_is_paused then notes[#notes + 1] = 'queue-paused' end
  if group and rules_of(group).is_paused then notes[#notes + 1] = 'lane-paused' end
  if group and not has_room(group) then notes[#notes + 1] = 'lane-at-limit' end
  return notes
end

-- One answer: { result, reason, place before, place after, lane, attempts, note ... }; '' for none.
local function answer(job, result, reason, after, notes)
  return {
    result, reason or '', job.place, after or job.place, job.group or '', job.attempts or '', unpack(notes or {}),
  }
end

-- What set_rings and a fence may send, to be asked for permission with a program's own writes.
local RING_WRITES = {
  { 'RPUSH', ring, '' }, { 'LREM', ring, '0', '' }, { 'LPUSH', wake, '1' }, { 'LTRIM', wake, '0', '63' },
}

local ring_denied = denied(RING_WRITES)

-- The answer that refuses a job because this user may not send one of its writes, or nil.
local function denial(job, writes)
  local command = ring_denied or denied(writes)
  return command and answer(job, 'failed', 'denied', nil, { command })
end

-- Make an old worker's next settle or beat be refused: costs one attempt of the budget.
local function fence(job, notes)
  notes[#notes + 1] = 'fenced'
  if not dry then call('HINCRBY', job.row, 'attempts', 1) end
end

-- Give back the slot in its lane that a job in flight had.
local function slot_back(group)
  if call('HINCRBY', gactive, group, -1) <= 0 then call('HDEL', gactive, group) end
  touch(group)
end

local MOST_IN_FLIGHT = 5000

-- How many rows in `active` name each lane, lapsed ones included; nil where there are too many to count in one step.
local function in_flight()
  local size, count = call('ZCARD', active), {}
  if size > MOST_IN_FLIGHT then return nil end
  for at = 0, size - 1, 1000 do
    for _, id in ipairs(call('ZRANGE', active, at, at + 999)) do
      local group = type_of(row_of(id)) == 'hash' and call('HGET', row_of(id), 'group')
      if group then count[group] = (count[group] or 0) + 1 end
    end
  end
  return count
end

-- Whether an error is that this user may not send a command, or not for this key.
local function is_denial(met)
  local text = type(met) == 'table' and met.err or tostring(met)
  return text:find('ACL failure in script', 1, true) or text:find("user executing the script can't", 1, true)
end

-- Handle the jobs named in ARGV from `first` on, three words each, then put right the ring of every lane touched.
-- A job of which something may not even be seen is left: what is written of one was asked for before the first write.
local function each_job(first, handle)
  local answers, ids = {}, {}
  for at = first, #ARGV, 3 do ids[#ids + 1] = ARGV[at] end
  foresee(ids)
  local broken
  for at = first, #ARGV, 3 do
    local is_whole, made = pcall(handle, ARGV[at], ARGV[at + 1], ARGV[at + 2])
    if not is_whole and not is_denial(made) then broken = made; break end
    local unseen = { id = ARGV[at], place = 'none' }
    answers[#answers + 1] = is_whole and made or answer(unseen, 'failed', 'denied', nil, { 'what', ARGV[at], 'needs' })
  end
  set_rings()
  if broken then error(broken, 0) end
  return answers
end
