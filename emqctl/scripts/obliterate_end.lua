-- Take the pause, and with it the last key, from a queue of which nothing else is left.
--
-- KEYS[1] the queue's prefix
-- KEYS[2] emq:{q}:meta HASH, by which the queue is paused
-- ARGV[1] flags, letters of: p permissions were probed
-- ARGV[2...] the whole keys of which none may exist
-- Returns 1 done, 0 where one of them exists
-- Errors  EMQPROBE permissions unknown, EMQDENIED; nothing is written then. Never EMQTYPE

local refused = cannot_tell_permissions()
if refused then return refused end
local no = denied({ { 'UNLINK', meta } })
if no then return redis.error_reply('EMQDENIED ' .. no) end

if call('EXISTS', unpack(ARGV, 2)) > 0 then return 0 end
call('UNLINK', meta)
return 1
