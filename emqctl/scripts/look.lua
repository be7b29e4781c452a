-- Put in front of every change, after refusal.lua: what it looks at of a job, and why it leaves one as it is.

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
