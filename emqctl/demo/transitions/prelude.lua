-- Put in front of every transition, after the keys of emqctl/scripts/keys.lua: the steps transitions share.

local WRONG_KIND = redis.error_reply('EMQKIND job id must be JOB-namespaced')

local function stale(why) return redis.error_reply('EMQSTALE ' .. why) end
local function is_job(id) return id:sub(1, 3) == 'JOB' end
local function count(metric) call('HINCRBY', KEYS[1] .. 'metrics:' .. metric, 'count', 1) end

-- Write the row of a job that is not there yet; false if there is a row, of whatever kind.
local function create(id, payload, state)
  if call('EXISTS', row_of(id)) == 1 then return false end
  call('HSET', row_of(id), 'state', state, 'attempts', 0, 'payload', payload)
  return true
end

local function has_room(group)
  local limit = call('HGET', glimit, group)
  return not limit or tonumber(call('HGET', gactive, group) or 0) < tonumber(limit)
end

local function leave_ring(group) call('LREM', ring, 0, group) end

-- Put a lane on the ring and wake a worker, if it can be served and is not on the ring.
local function ring_if(group)
  if call('ZCARD', lane_of(group)) == 0 or call('SISMEMBER', paused, group) == 1 then return end
  if not has_room(group) or call('LPOS', ring, group) then return end
  call('RPUSH', ring, group)
  call('LPUSH', wake, '1')
  call('LTRIM', wake, 0, WAKE_TOKENS - 1)
end

local function give_slot_back(group)
  if call('HINCRBY', gactive, group, -1) <= 0 then call('HDEL', gactive, group) end
end

-- Begin an attempt of a job that was just popped; its attempts are the token its worker settles with.
local function start(id, deadline)
  local row = row_of(id)
  local token = call('HINCRBY', row, 'attempts', 1)
  call('HSET', row, 'state', 'active')
  call('ZADD', active, deadline, id)
  return { id, call('HGET', row, 'payload'), token }
end

-- Start up to `most` jobs of a lane; off the ring with it once it is empty or full.
local function serve_lane(group, most, lease_ms)
  local deadline = now_ms() + lease_ms
  local served = {}
  local popped = call('ZPOPMIN', lane_of(group), most)
  for i = 1, #popped, 2 do
    local job = start(popped[i], deadline)
    job[4] = group
    served[#served + 1] = job
  end
  if #served > 0 then call('HINCRBY', gactive, group, #served) end
  if #served == 0 or not has_room(group) or call('ZCARD', lane_of(group)) == 0 then leave_ring(group) end
  return served
end

-- Turn to the next lane and serve as many jobs as `wanted(group)` says, within the lane's limit.
local function serve_turn(wanted, lease_ms)
  local group = call('LMOVE', ring, ring, 'LEFT', 'RIGHT')
  if not group then return {} end
  local most = math.min(wanted(group), call('ZCARD', lane_of(group)))
  local limit = call('HGET', glimit, group)
  if limit then most = math.min(most, tonumber(limit) - tonumber(call('HGET', gactive, group) or 0)) end
  return serve_lane(group, math.max(most, 0), lease_ms)
end

-- Let a job wait: in its lane if it has one, else in flat pending, where nobody is woken.
local function wait(id)
  local group = call('HGET', row_of(id), 'group')
  if group then
    call('ZADD', lane_of(group), 0, id)
    ring_if(group)
  else
    call('ZADD', pending, 0, id)
  end
  call('HSET', row_of(id), 'state', 'pending')
end

-- The ids whose time in `active` or `schedule` has come, the longest overdue first.
local function due(set, limit) return call('ZRANGEBYSCORE', set, '-inf', now_ms(), 'LIMIT', 0, limit) end

-- Take a lapsed job from its worker; returns its group, or false.
local function lapse(id)
  local group = call('HGET', row_of(id), 'group')
  call('ZREM', active, id)
  if group then give_slot_back(group) end
  return group
end

-- Take a job that its worker settles out of where it is; tells whether it was in flight.
-- A late worker's job waits again by then. The schedule and the dead are not looked at.
local function withdraw(id)
  local group = call('HGET', row_of(id), 'group')
  local in_flight = call('ZREM', active, id) == 1
  if group and in_flight then
    give_slot_back(group)
    ring_if(group)
  elseif group then
    call('ZREM', lane_of(group), id)
    if call('ZCARD', lane_of(group)) == 0 then leave_ring(group) end
  elseif not in_flight then
    call('ZREM', pending, id)
  end
  return in_flight
end

-- One child less to wait for; the last one releases the parent into flat pending.
local function count_down(parent)
  if call('DECR', row_of(parent) .. ':dependencies') <= 0 then
    call('ZADD', pending, 0, parent)
    call('HSET', row_of(parent), 'state', 'pending')
  end
end

-- A parent dies of a child it could not do without.
local function fail_parent(parent)
  call('HSET', row_of(parent), 'state', 'dead')
  call('ZADD', dead, 0, parent)
  call('ZREM', pending, parent)
end

local function post(...) call('RPUSH', outbox, table.concat({ ... }, '\0')) end
