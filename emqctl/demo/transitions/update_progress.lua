-- Note how far a job is, on its row and on the events channel.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] job id
-- ARGV[2] progress, any text
-- Returns 1, or -1 no such job

local id, progress = ARGV[1], ARGV[2]

if call('EXISTS', row_of(id)) == 0 then return -1 end
call('HSET', row_of(id), 'progress', progress)
call('PUBLISH', events, cjson.encode({ event = 'progress', job = id, progress = progress }))
return 1
