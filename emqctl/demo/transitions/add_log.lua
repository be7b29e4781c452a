-- Add a line to a job's log.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] job id
-- ARGV[2] line
-- ARGV[3] lines to keep, 0 = all
-- Returns the number of lines, or -1 no such job

local id, line, keep = ARGV[1], ARGV[2], tonumber(ARGV[3])

if call('EXISTS', row_of(id)) == 0 then return -1 end
local logs = row_of(id) .. ':logs'
local lines = call('RPUSH', logs, line)
if keep == 0 then return lines end
call('LTRIM', logs, -keep, -1)
return math.min(lines, keep)
