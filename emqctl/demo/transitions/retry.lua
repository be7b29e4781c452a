-- Settle a failed attempt: the job is tried again later, or it is dead and its parent is told.
--
-- KEYS[1] the queue's prefix
-- ARGV[1] job id
-- ARGV[2] token
-- ARGV[3] delay, ms
-- ARGV[4] attempts after which it is dead
-- ARGV[5] error
-- ARGV[6] the parent's id, '' = none
-- ARGV[7] the parent's queue, '' = this one
-- ARGV[8] policy: `id` the parent goes on without it, `fp` it dies too
-- Returns `scheduled` or `dead`
-- Errors  EMQSTALE

local id, token, delay_ms, most, reason, parent, parent_queue, policy = unpack(ARGV)

local row = row_of(id)
local attempts = call('HGET', row, 'attempts')
if not attempts then return stale('job gone') end
if attempts ~= token then return stale('retry token mismatch') end

withdraw(id)
call('HSET', row, 'last_error', reason)
if tonumber(attempts) < tonumber(most) then
  call('HSET', row, 'state', 'scheduled')
  call('ZADD', schedule, now_ms() + delay_ms, id)
  return 'scheduled'
end

call('HSET', row, 'state', 'dead')
call('ZADD', dead, 0, id)
count('failed')
if parent_queue ~= '' then
  post('', 'fail', parent_queue, parent, id, policy, reason)
elseif parent ~= '' and policy == 'fp' then
  call('HSET', row_of(parent) .. ':failed', id, reason)
  fail_parent(parent)
elseif parent ~= '' then
  call('HSET', row_of(parent) .. ':unsuccessful', id, reason)
  count_down(parent)
end
return 'dead'
