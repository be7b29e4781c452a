-- Finish a job: its row goes, and its parent waits for one child less.
-- A job that is not in flight any more finishes too, but its parent is not told.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] job id
-- ARGV[2] token
-- ARGV[3] result, for the parent
-- ARGV[4] the parent's id, '' = none
-- ARGV[5] the parent's queue, '' = this one
-- Returns 1 done, 0 no such job
-- Errors  EMQSTALE

local id, token, result, parent, parent_queue = unpack(ARGV)

local attempts = call('HGET', row_of(id), 'attempts')
if not attempts then return 0 end
if attempts ~= token then return stale('complete token mismatch') end

local was_in_flight = withdraw(id)
if was_in_flight and parent_queue ~= '' then
  post(parent_queue, parent, id, result)
elseif was_in_flight and parent ~= '' then
  call('HSET', row_of(parent) .. ':processed', id, result)
  count_down(parent)
end
call('DEL', row_of(id))
count('completed')
return 1
