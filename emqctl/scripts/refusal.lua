-- Put in front of every change, after keys.lua: what it is asked, and why the whole of it is refused.
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
