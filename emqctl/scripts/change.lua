-- Put in front of every change, after keys.lua: what a change looks at before its first write, and the ring.
-- An error in the middle of a program undoes nothing, so everything that can fail is checked beforehand.

local OWN_QUEUE = KEYS[1]:sub(6, -3)

-- ARGV[1] of every change: flags, letters of which each program says what they mean.
local function flagged(letter) return ARGV[1]:find(letter, 1, true) ~= nil end
local force, dry = flagged('f'), flagged('d')

local SET_TYPES = {
  { pending, 'zset' }, { active, 'zset' }, { schedule, 'zset' }, { dead, 'zset' }, { ring, 'list' },
  { wake, 'list' }, { paused, 'set' }, { gactive, 'hash' }, { glimit, 'hash' }, { gweight, 'hash' }, { meta, 'hash' },
}

local function type_of(key) return call('TYPE', key).ok end
local function is_or_absent(key, kind) local found = type_of(key); return found == kind or found == 'none' end
local function is_count(text) return #text <= 15 and (text == '0' or text:find('^[1-9]%d*$') ~= nil) end
local function is_integer(text) return is_count(text:gsub('^%-', '', 1)) and text ~= '-0' end

-- Byte by byte: the server's own comparison of texts goes by its locale.
local function is_at_most(text, most)
  for at = 1, #most do
    if text:byte(at) ~= most:byte(at) then return text:byte(at) < most:byte(at) end
  end
  return true
end

local function is_branded(id)
  return #id == 14 and id:find('^[A-Z][A-Z][A-Z][0-9A-Za-z]+$') ~= nil and is_at_most(id:sub(4), 'AzL8n0Y58m7')
end

-- The reply that refuses the whole call when one of the queue's own keys is of another type, or nil.
local function wrong_type()
  for _, each in ipairs(SET_TYPES) do
    local found = type_of(each[1])
    if found ~= each[2] and found ~= 'none' then
      return redis.error_reply('EMQTYPE ' .. each[1] .. ' ' .. found .. ' ' .. each[2])
    end
  end
end

-- The first of some commands, each { name, key, argument ... }, that this user may not run, or nil.
-- Servers before 7.0 cannot tell: the flag `p` says that the caller has asked in another way.
local function denied(commands)
  if not redis.acl_check_cmd then return nil end
  for _, command in ipairs(commands) do
    if not redis.acl_check_cmd(unpack(command)) then return command[1] .. ' ' .. command[2] end
  end
end

local function cannot_tell_permissions()
  if redis.acl_check_cmd or dry or flagged('p') then return nil end
  return redis.error_reply('EMQPROBE this server cannot say what this user may do')
end

-- What a change looks at. A field that may expire is looked at only by servers that know of such.
local ANY_ROW = row_of('JOB00000000000')
local READS = {
  { 'TYPE', pending }, { 'TYPE', active }, { 'TYPE', schedule }, { 'TYPE', dead }, { 'TYPE', ring }, { 'TYPE', wake },
  { 'TYPE', paused }, { 'TYPE', gactive }, { 'TYPE', glimit }, { 'TYPE', gweight }, { 'TYPE', meta },
  { 'TYPE', ANY_ROW }, { 'HMGET', ANY_ROW, 'state' }, { 'HEXISTS', ANY_ROW, 'payload' },
  { 'EXISTS', below(ANY_ROW, 'lock') }, { 'GET', below(ANY_ROW, 'dependencies') },
  { 'ZSCORE', pending, '' }, { 'ZSCORE', active, '' }, { 'ZSCORE', schedule, '' }, { 'ZSCORE', dead, '' },
  { 'ZMSCORE', pending, '' }, { 'ZMSCORE', active, '' }, { 'ZMSCORE', schedule, '' }, { 'ZMSCORE', dead, '' },
  { 'ZCARD', lane_of('TEN00000000000') }, { 'HGET', gactive, '' }, { 'HGET', glimit, '' },
  { 'SISMEMBER', paused, '' }, { 'LLEN', ring }, { 'LRANGE', ring, '0', '1' },
}

local function denied_read()
  if not redis.acl_check_cmd then return nil end
  local is_known, may = pcall(redis.acl_check_cmd, 'HPTTL', ANY_ROW, 'FIELDS', '1', 'lock')
  local command = denied(READS) or (is_known and not may and 'HPTTL ' .. ANY_ROW)
  return command and redis.error_reply('EMQDENIED ' .. command) or nil
end

-- The reply that refuses the whole call, with nothing written, or nil. Permissions first: a command that this user
-- may not run, met half way, would leave the change half done.
local function refusal() return denied_read() or cannot_tell_permissions() or wrong_type() end

local FIELDS = { 'state', 'attempts', 'group', 'parent', 'parent_queue', 'last_error', 'stalled', 'lock' }
local PLACES = { 'pending', 'active', 'schedule', 'dead' }
local SET_OF = { pending = pending, active = active, schedule = schedule, dead = dead }

-- The scores of the jobs of a call, id -> place -> score, asked of each set at once. Each is good for one look:
-- what is done with a job then moves it.
local foreseen = {}

local function foresee(ids)
  for _, id in ipairs(ids) do foreseen[id] = {} end
  for _, place in ipairs(PLACES) do
    for at, score in ipairs(call('ZMSCORE', SET_OF[place], unpack(ids))) do foreseen[ids[at]][place] = score end
  end
end

local function scores_of(id)
  local scores = foreseen[id] or {}
  foreseen[id] = nil
  for _, place in ipairs(PLACES) do
    if scores[place] == nil then scores[place] = call('ZSCORE', SET_OF[place], id) end
  end
  return scores
end

-- The answer of a key to a command for its type; nil, and true, where it is of another. Few are: nobody asks first.
local function answer_of(kind, name, key, ...)
  local found = redis.pcall(name, key, ...)
  if type(found) ~= 'table' or not found.err then return found end
  if type_of(key) ~= kind then return nil, true end
  return call(name, key, ...) -- refused for something else: let it be said
end

local function read_row(job)
  local fields = answer_of('hash', 'HMGET', job.row, unpack(FIELDS)) or {}
  for at, field in ipairs(FIELDS) do job[field] = fields[at] or nil end
  job.type = (job.state or job.attempts) and 'hash' or type_of(job.row)
  job.has_payload = job.type == 'hash' and call('HEXISTS', job.row, 'payload') == 1
end

-- A worker shows that it holds the job: the marker string, or the row's field while it has a TTL.
-- A field without TTL and without the string is left from a server that could not let it expire.
local function has_live_lock(job)
  if job.has_keys_below and call('EXISTS', below(job.row, 'lock')) == 1 then return true end
  if not job.lock then return false end
  local ttl = redis.pcall('HPTTL', job.row, 'FIELDS', 1, 'lock')
  return ttl.err == nil and ttl[1] > 0
end

-- Everything a move looks at of one job. `places` are the words of where its id is: the four sets and its own lane.
local function look(id)
  local job = { id = id, row = row_of(id), places = {}, scores = scores_of(id) }
  read_row(job)
  job.has_keys_below = call('EXISTS', below(job.row, 'lock'), below(job.row, 'dependencies')) > 0
  for _, place in ipairs(PLACES) do
    if job.scores[place] then job.places[#job.places + 1] = place end
  end
  if job.group and is_branded(job.group) then
    job.lane = lane_of(job.group)
    local score, is_other = answer_of('zset', 'ZSCORE', job.lane, id)
    job.lane_is_set = not is_other
    if score then job.places[#job.places + 1] = 'lane' end
  end
  job.place = job.places[1] or 'none'
  return job
end

local function has_live_lease(job, now) return tonumber(job.scores.active or 0) > now end

local function is_at(job, ...)
  for _, each in ipairs(job.places) do
    for _, place in ipairs({ ... }) do
      if each == place then return true end
    end
  end
  return false
end

local rules = {}

-- What no program changes of a lane after it asked: its limit, whether it is paused, whether its counter is a number.
local function rules_of(group)
  local known = rules[group]
  if not known then
    local limit, counter = call('HGET', glimit, group), call('HGET', gactive, group)
    known = {
      limit = limit,
      is_paused = call('SISMEMBER', paused, group) == 1,
      has_sound_counter = not counter or is_integer(counter),
      has_sound_limit = not limit or is_integer(limit),
    }
    rules[group] = known
  end
  return known
end

local function has_sound_counters(group)
  return rules_of(group).has_sound_limit and rules_of(group).has_sound_counter
end

-- Why a row would break the worker that claims it, or the step that settles it.
local function is_bad_row(job)
  if not is_branded(job.id) then return true end
  if job.attempts and not is_count(job.attempts) then return true end
  if job.parent and not is_branded(job.parent) then return true end
  if not job.group then return false end
  if not is_branded(job.group) then return true end
  return not has_sound_counters(job.group)
end

-- The first reason against moving a job out of a place, or nil. `word` says which places are meant, `seen` is the
-- `attempts` the caller read, '' for any.
local function objection(job, word, seen, ...)
  if job.type == 'none' then return 'missing' end
  if not is_at(job, ...) then return 'not-' .. word end
  if job.type ~= 'hash' or (job.lane and not job.lane_is_set) then return 'wrong-type' end
  if is_bad_row(job) then return 'bad-row' end
  if #job.places > 1 then return 'two-places' end
  if not job.has_payload then return 'no-payload' end
  if not force and has_live_lock(job) then return 'locked' end
  if seen ~= '' and seen ~= (job.attempts or '0') then return 'changed' end
end

local function count_of(job)
  if not job.has_keys_below then return 0 end
  local key = below(job.row, 'dependencies')
  return type_of(key) == 'string' and tonumber(call('GET', key)) or 0
end

local function is_held(job) return job.state == 'awaiting_children' and #job.places == 0 end

-- Killed by a child it could not do without; it never ran itself.
local function is_dead_by_children(job)
  return #job.places == 1 and job.place == 'dead' and job.state == 'dead' and (job.attempts or '0') == '0'
    and not job.last_error
end

local function has_field(key, field) return type_of(key) == 'hash' and call('HEXISTS', key, field) == 1 end

-- What a child's parent makes of a move out of `dead`: nil when it still counts on the child and was never told of
-- its death, else the reason against it. `flow-child` where the death can be taken back, the others where not.
local function flow_objection(job)
  local parent = look(job.parent)
  if parent.type ~= 'hash' or not parent.has_payload then return 'parent-gone' end
  local waits, count = is_held(parent) or is_dead_by_children(parent), count_of(parent)
  local failed = has_field(below(parent.row, 'failed'), job.id)
  local ignored = has_field(below(parent.row, 'unsuccessful'), job.id)
  local processed = has_field(below(parent.row, 'processed'), job.id)
  for _, told in ipairs({ 'failed', 'unsuccessful', 'processed' }) do
    if not is_or_absent(below(parent.row, told), 'hash') then return 'flow-contradiction' end
  end
  if processed or (failed and ignored) or (waits and count < 1) then return 'flow-contradiction' end
  if failed then return is_dead_by_children(parent) and 'flow-child' or 'parent-ran' end
  if ignored then return waits and 'flow-child' or 'parent-released' end
  return not waits and 'parent-released' or nil
end

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
