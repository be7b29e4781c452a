-- Pause a queue that is to be obliterated; those of its own keys that are of another type go at once.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:meta HASH
-- ARGV[1] flags, letters of: p permissions were probed
-- Returns how many jobs are in flight
-- Errors  EMQPROBE permissions unknown, EMQDENIED; nothing is written then. Never EMQTYPE

local refused = denied_read() or cannot_tell_permissions()
if refused then return refused end

local OWN_TYPES = { { repeats, 'zset' }, unpack(SET_TYPES) }

-- What this program sends, and those that follow it.
local commands = {
  { 'HSETNX', meta, 'paused', '1' }, { 'UNLINK', ANY_ROW }, { 'HGET', ANY_ROW, 'group' },
  { 'HINCRBY', gactive, '', '1' }, { 'SREM', paused, '' }, { 'EXISTS', active },
}
for _, set in ipairs({ repeats, pending, active, schedule, dead }) do
  for _, each in ipairs({ { 'ZREM', set, '' }, { 'ZCARD', set }, { 'ZRANGE', set, '0', '0' } }) do
    commands[#commands + 1] = each
  end
end
for _, hash in ipairs({ gactive, glimit, gweight }) do commands[#commands + 1] = { 'HDEL', hash, '' } end
for _, each in ipairs(OWN_TYPES) do commands[#commands + 1] = { 'UNLINK', each[1] } end
local no = ring_denied or denied(commands)
if no then return redis.error_reply('EMQDENIED ' .. no) end

for _, each in ipairs(OWN_TYPES) do
  if not is_or_absent(each[1], each[2]) then call('UNLINK', each[1]) end
end
call('HSETNX', meta, 'paused', '1')
return call('ZCARD', active)
