-- Needs: keys, queue, filter, leases, histories, failures, put_back, exporting, exchange_begin, exchange_gates
-- What goes up: what the worker has found, and what became of its leases.
--
-- turn: duplicates: places, from 1, of the pushes that were; stored: how many pushes, from the first, are dealt
-- with; full: why not all, or in spite of what they are: 'memory', 'bound', 'exceeded'; kept: leases that are
-- not released, because what their pages led to is not stored yet; remembered: whether there is any history
local up = {}
local STARTS, FILTERS = {start = true, ['start+filter'] = true}, {filter = true, ['start+filter'] = true}
-- Of cleared filters, so many keys are deleted in each exchange.
local SWEPT = 100

local function is_new(mode, fingerprint)
  return (not STARTS[mode] or redis.call('SISMEMBER', STARTED, fingerprint) == 0)
    and (not FILTERS[mode] or not seen.has(fingerprint))
end

local function mark(mode, fingerprint)
  return (not STARTS[mode] or redis.call('SADD', STARTED, fingerprint) == 1)
    and (not FILTERS[mode] or seen.add(fingerprint))
end

-- -> nil, or why there is no room for another request where so many wait
local function lacks_room(turn, waiting)
  if turn.full_memory then return 'memory' end
  if said.most_waiting == 0 or said.policy ~= 'slow' or waiting < said.most_waiting then return end
  return said.exceed and 'exceeded' or 'bound'
end

-- Of a batch that is only filtered, and for which there is room, all is asked at once.
-- -> for each push whether it is new; nil if they are to be asked one after the other
local function mark_all(first)
  local fingerprints = {}
  for i = 1, said.pushes do
    local at = first + 4 * (i - 1)
    if ARGV[at] ~= 'filter' then return end
    fingerprints[i] = ARGV[at + 1]
  end
  return seen.add_in_turn(fingerprints)
end

function up.push(turn)
  local ranks, requests, duplicates, stored, full, has_new = {}, {}, {}, 0, '', false
  local first, waiting, over = arguments(4 * said.pushes), turn.waiting, turn.over
  local may_lack = turn.full_memory or said.most_waiting > 0 and said.policy == 'slow'
  local marked = not (may_lack or over or turn.repeated) and mark_all(first)
  for i = 1, turn.repeated and 0 or said.pushes do
    local at = first + 4 * (i - 1)
    local mode, fingerprint, request = ARGV[at], ARGV[at + 1], ARGV[at + 3]
    local lacks = may_lack and lacks_room(turn, waiting + #requests)
    if lacks and not over and is_new(mode, fingerprint) then full = lacks end
    -- What finds no room keeps its place, and so does all that comes after it.
    if full ~= '' and full ~= 'exceeded' then break end
    local new = marked and marked[i]
    if not marked then new = not over and mark(mode, fingerprint) end
    has_new = has_new or new
    if not new then
      duplicates[#duplicates + 1] = i
    elseif request ~= '' then
      ranks[#ranks + 1], requests[#requests + 1] = ARGV[at + 2], request
    end
    stored = i
  end
  if full == '' then full = lacks_room(turn, waiting + #requests) or '' end
  if full ~= '' then turn.want_seeds = 0 end
  if #requests > 0 then queue.push(ranks, requests) end
  if has_new then
    -- A crawl that goes on has not finished, whoever thought so.
    redis.call('PERSIST', STARTED)
    redis.call('DEL', FINISHED)
    redis.call('HDEL', META, 'finished')
  end
  turn.duplicates, turn.stored, turn.full = duplicates, stored, full
  turn.kept, turn.remembered = 0, turn.has_rare and redis.call('EXISTS', HISTORY) == 1
end

-- -> what was held; nil if it is not released. A lease that is no longer there was reclaimed: it is another's now.
local function release(turn, lease, after)
  if turn.repeated then return end
  local value = redis.call('HGET', turn.held, lease)
  if value and after > turn.stored then
    turn.kept = turn.kept + 1
    return
  end
  if value then
    redis.call('HDEL', turn.held, lease)
    exporting.note({value}, turn.now)
  end
  return value
end

function up.finish(turn)
  local at_once, remembered = {}, turn.remembered
  local first = arguments(2 * said.finished)
  for at = first, first + 2 * said.finished - 2, 2 do
    local lease, after = ARGV[at], tonumber(ARGV[at + 1])
    if remembered or exporting.on or after > turn.stored then
      local value = release(turn, lease, after)
      if value and remembered then
        local _, _, _, request = leases.read(value)
        redis.call('HDEL', HISTORY, redis.sha1hex(request))
      elseif not value and remembered and not turn.repeated and after <= turn.stored then
        histories.note_done(turn.own, lease, turn.worker, turn.now)
      end
    elseif not turn.repeated then
      at_once[#at_once + 1] = lease
    end
  end
  in_chunks(at_once, function(...) redis.call('HDEL', turn.held, ...) end)
end

function up.give_back(turn)
  local given_back = {}
  for _ = 1, said.given_back do
    local lease = argument()
    local value = release(turn, lease, 0)
    if value then given_back[#given_back + 1] = {lease, value} end
  end
  leases.put_back(given_back, turn.worker, said.most_failed, turn.now)
end

function up.refuse(turn)
  for _ = 1, said.refused do
    local lease, reason = argument(), argument()
    local value = release(turn, lease, 0)
    if value then
      local kind, score, _, request = leases.read(value)
      -- What nobody alive can do would go round for ever: then, and only then, it is set aside.
      if refusals.are_of_all(histories.add(request, 'refused', turn.worker, turn.now), turn.now) then
        reason = reason .. ', nor has that of any worker alive'
        failures.set_aside(turn.worker, {lease, value}, reason, '', 0, said.most_failed, turn.now)
      else
        leases.park(kind, score, turn.worker .. '/' .. lease, request, turn.now)
      end
    end
  end
end

function up.set_aside(turn)
  for _ = 1, said.failed do
    local lease, after, reason, traceback = argument(), number(), argument(), argument()
    local value = release(turn, lease, after)
    if value then
      failures.set_aside(turn.worker, {lease, value}, reason, traceback, 1, said.most_failed, turn.now)
    end
  end
end

function up.forget(turn)
  local forgotten = 0
  for _ = 1, said.forgotten do
    local mode, fingerprint = argument(), argument()
    if not turn.repeated then
      if STARTS[mode] then forgotten = forgotten + redis.call('SREM', STARTED, fingerprint) end
      if FILTERS[mode] and seen.remove(fingerprint) then forgotten = forgotten + 1 end
    end
  end
  seen.settle()
  if turn.has_rare then seen.sweep(SWEPT) end
  if not turn.over and forgotten > 0 then change_epoch() end
end
