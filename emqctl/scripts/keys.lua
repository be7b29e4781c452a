-- Put in front of every program: the keys of one queue, spelled here alone (emqctl/keyspace.py for Lua).
--
-- KEYS[1] the queue's prefix, `emq:{q}:`; a key is that and a suffix. The prefix itself never exists: declared
--         beside a set that does, it makes a cluster that is moving the slot answer TRYAGAIN before anything runs.

local call = redis.call

local pending = KEYS[1] .. 'pending' -- ZSET of flat waiting jobs, score 0
local active = KEYS[1] .. 'active' -- ZSET of jobs in flight, score = lease deadline, ms
local schedule = KEYS[1] .. 'schedule' -- ZSET, score = run-at, ms
local dead = KEYS[1] .. 'dead' -- ZSET, score 0
local ring = KEYS[1] .. 'ring' -- LIST, the rota of lanes
local wake = KEYS[1] .. 'wake' -- LIST of tokens that idle workers wait for
local paused = KEYS[1] .. 'paused' -- SET of paused lanes
local gactive = KEYS[1] .. 'gactive' -- HASH lane -> jobs in flight
local glimit = KEYS[1] .. 'glimit' -- HASH lane -> most jobs in flight
local gweight = KEYS[1] .. 'gweight' -- HASH lane -> jobs served per turn
local meta = KEYS[1] .. 'meta' -- HASH, `paused` of the whole queue
local repeats = KEYS[1] .. 'repeat' -- ZSET of registration names, score = next run, ms
local outbox = KEYS[1] .. 'flow:outbox' -- LIST of settlements for parents in other queues
local events = KEYS[1] .. 'events' -- pub/sub channel

local JOB_SUBS = { 'lock', 'logs', 'dependencies', 'processed', 'failed', 'unsuccessful' } -- keys below a row
local WAKE_TOKENS = 64

local function row_of(id) return KEYS[1] .. 'job:' .. id end
local function below(row, sub) return row .. ':' .. sub end -- one of JOB_SUBS
local function keys_below(row)
  local keys = {}
  for at, sub in ipairs(JOB_SUBS) do keys[at] = below(row, sub) end
  return keys
end
local function dedup_of(dedup_id) return KEYS[1] .. 'de:' .. dedup_id end
local function lane_of(group) return KEYS[1] .. 'g:' .. group .. ':pending' end
local function record_of(name) return KEYS[1] .. 'repeat:' .. name end

-- Milliseconds since 1970 by the server's clock.
local function now_ms()
  local seconds_micros = call('TIME')
  return seconds_micros[1] * 1000 + math.floor(seconds_micros[2] / 1000)
end
