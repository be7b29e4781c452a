-- Delete keys of a queue that its sets do not speak for; jobs that stand somewhere and registered repeats are left.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:meta HASH, by which the queue is paused
-- ARGV[1] flags, letters of: f force, p permissions were probed
-- ARGV[2] what: `job`, `repeat`, or `key`
-- ARGV[3...] at most 25 ids, names, or whole keys
-- Returns 0, then the ids of jobs whose rows were deleted; -1 alone, unless forced, where jobs are in flight
-- Errors  EMQPROBE permissions unknown, EMQDENIED; nothing is written then. Never EMQTYPE

local deleted = {}

local refused = cannot_tell_permissions()
if refused then return refused end
if not force and call('ZCARD', active) > 0 then return { -1 } end

local KEY_OF = { job = row_of, ['repeat'] = record_of, key = function(key) return key end }
local writes = {}
for at = 3, #ARGV do writes[#writes + 1] = { 'UNLINK', KEY_OF[ARGV[2]](ARGV[at]) } end
local no = denied(writes)
if no then return redis.error_reply('EMQDENIED ' .. no) end

local DELETE = {
  job = function(id)
    local job = look(id)
    if #job.places > 0 then return end
    if job.type ~= 'none' then deleted[#deleted + 1] = id end
    call('UNLINK', job.row, unpack(keys_below(job.row)))
  end,
  ['repeat'] = function(name)
    if not call('ZSCORE', repeats, name) then call('UNLINK', record_of(name)) end
  end,
  key = function(key)
    local is_awaited = key == wake and call('EXISTS', ring) == 1
    if not is_awaited then call('UNLINK', key) end
  end,
}

for at = 3, #ARGV do DELETE[ARGV[2]](ARGV[at]) end
return { 0, unpack(deleted) }
