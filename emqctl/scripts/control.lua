-- Pause or resume a queue or a lane, or set a lane's ceiling or weight.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] the key that is set
-- ARGV[1] flags, letters of: d dry run, p permissions were probed
-- ARGV[2] what: `pause`, `resume`, `pause-lane`, `resume-lane`, `limit`, `weight`
-- ARGV[3] the lane's group, '' for the queue
-- ARGV[4] the limit or weight, '' lifts it
-- Returns 1 changed, 0 it was so already
-- Errors  EMQTYPE a key of another type, EMQPROBE permissions unknown, EMQDENIED; nothing is written then

local what, group, value = ARGV[2], ARGV[3], ARGV[4]

local refused = refusal()
if refused then return refused end
if group ~= '' then
  local lane = lane_of(group)
  if not is_or_absent(lane, 'zset') then
    return redis.error_reply('EMQTYPE ' .. lane .. ' ' .. type_of(lane) .. ' zset')
  end
end

local KEY = { pause = meta, resume = meta, limit = glimit, weight = gweight }
local FIELD = { pause = 'paused', resume = 'paused', limit = group, weight = group }
local TEXT = { pause = '1', resume = '', limit = value, weight = value }

-- The command that makes the change, or nil where it was so already.
local function change()
  if what == 'pause-lane' then
    return call('SISMEMBER', paused, group) == 0 and { 'SADD', paused, group } or nil
  elseif what == 'resume-lane' then
    return call('SISMEMBER', paused, group) == 1 and { 'SREM', paused, group } or nil
  end
  local key, field, text = KEY[what], FIELD[what], TEXT[what]
  local now = call('HGET', key, field)
  if text == '' then return now and { 'HDEL', key, field } or nil end
  local is_so = now == text or (what == 'pause' and now) -- a queue is paused by any value
  return not is_so and { 'HSET', key, field, text } or nil
end

local command = change()
local no = (group ~= '' and ring_denied) or (command and denied({ command }))
if no then return redis.error_reply('EMQDENIED ' .. no) end
if command and not dry then call(unpack(command)) end
if group ~= '' and not dry then
  touch(group)
  set_rings()
end
return command and 1 or 0
