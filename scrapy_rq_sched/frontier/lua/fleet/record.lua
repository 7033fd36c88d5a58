-- Needs: keys, number_of, count_up
-- The record of the crawl under way: the counts of its workers and slots, and its chart. fleet/crawls.lua makes its entry in
-- the history of it.
--
-- COUNTS, a hash: run: the number of the crawl, ':' and when its record began, which no other record has; began: when the crawl
--   began; came: when the last worker joined; settings: those that matter, in JSON; folded, folded_lost, done: of workers that
--   are gone, how many there were, how many of these died, and what they did together; for each other
--   worker
--   'joined <worker>': '<time> <its description>', 'left <worker>' or 'lost <worker>': the time, 'done <worker>': what it
--   has done, as '<name>=<number> …'; 'aside <reason>': how many requests were set aside; returned: how many begun requests
--   of dead workers went back to the queue. Times are in milliseconds
-- SLOT_COUNTS, a hash: '<responses> <milliseconds>' for each slot
-- CHART, a list: '<second> <pages> <waiting> <items> <errors>' for each part of the crawl, of as many seconds as
--   COUNTS' field width says
-- CRAWLS' field last: the number of the last crawl
--
-- Records are optional: if a key has a wrong type, the crawl goes on without them.
local record = {}
-- The workers, slots and points that a record has at most.
local WORKERS_KNOWN, SLOTS_KNOWN, POINTS = 1000, 1000, 120
-- The seconds of a point at first.
local WIDTH = 10
-- META's field history: how many crawls are kept, for how many seconds, and from which share on a figure that differs from
-- the crawl before is an event.
local KEPT, FOR, SHARE = 100, 90 * 86400, 0.3
-- The most seconds for which a history is kept.
local LONGEST = 100 * 365 * 86400

local function is_usable()
  return not wrong_type({{COUNTS, 'hash'}, {SLOT_COUNTS, 'hash'}, {CHART, 'list'}, {CRAWLS, 'hash'}})
end

-- -> how many crawls are kept, for how long, and the share
function record.limits()
  local known = redis.call('HGET', META, 'history') or ''
  local most, age, share = string.match(known, '^(%d+) (%d+) ([%d.]+)$')
  return number_of(most, KEPT), math.min(number_of(age, FOR), LONGEST), number_of(share, SHARE)
end

-- Begin the record of a crawl. -> its name, with the number 0 if there is no history
function record.begin(now)
  if not is_usable() then return nil end
  redis.call('DEL', COUNTS, SLOT_COUNTS, CHART)
  local most, age = record.limits()
  local run = '0'
  if most > 0 then
    count_up(CRAWLS, 'last', 1)
    run = redis.call('HGET', CRAWLS, 'last')
    redis.call('EXPIRE', CRAWLS, age)
  end
  -- Redis may have lost the crawl's data, which goes on.
  redis.call('HSETNX', META, 'began', now)
  run = run .. ':' .. whole(now)
  redis.call('HSET', COUNTS, 'run', run, 'began', redis.call('HGET', META, 'began'))
  return run
end

-- -> the number of a crawl in COUNTS' field run
function record.number(run)
  return number_of(string.match(run or '', '^%d+'), 0)
end

-- Forget the crawl under way, and its number if no entry has it: it never began.
function record.undo()
  if not is_usable() then return record.clear() end
  local run = whole(record.number(redis.call('HGET', COUNTS, 'run')))
  if redis.call('HGET', CRAWLS, 'last') == run and redis.call('HEXISTS', CRAWLS, run) == 0 then
    count_up(CRAWLS, 'last', -1)
  end
  record.clear()
end

function record.clear()
  redis.call('UNLINK', COUNTS, SLOT_COUNTS, CHART)
end

-- -> whether a crawl is under way
function record.is_open()
  return is_usable() and redis.call('HEXISTS', COUNTS, 'run') == 1
end

-- -> {<name> = <number>, …}, with the numbers of *text* added to those of *sums*
function record.add_up(sums, text)
  for name, value in string.gmatch(text, '(%S+)=(%d+)') do sums[name] = (sums[name] or 0) + number_of(value, 0) end
  return sums
end

-- Many workers have come and gone: keep only the sum of what those did that are gone.
local function fold()
  local sums, ended, lost = {}, 0, 0
  for _, pair in ipairs(pairs_of(redis.call('HGETALL', COUNTS))) do
    local field = pair[1]
    local worker = string.match(field, '^left (.*)$') or string.match(field, '^lost (.*)$')
    if worker then
      record.add_up(sums, redis.call('HGET', COUNTS, 'done ' .. worker) or '')
      ended, lost = ended + 1, lost + (string.find(field, '^lost ') and 1 or 0)
      redis.call('HDEL', COUNTS, field, 'joined ' .. worker, 'done ' .. worker)
    end
  end
  record.add_up(sums, redis.call('HGET', COUNTS, 'done') or '')
  local parts = {}
  for name, value in pairs(sums) do parts[#parts + 1] = string.format('%s=%.0f', name, value) end
  redis.call('HSET', COUNTS, 'done', table.concat(parts, ' '))
  count_up(COUNTS, 'folded', ended)
  count_up(COUNTS, 'folded_lost', lost)
end

-- about: the worker's description of itself; settings: those that matter; both in JSON. -> the name of the crawl's record
function record.joined(worker, about, settings, now)
  if not record.is_open() then
    -- A worker of an older version has begun the crawl.
    if redis.call('HEXISTS', META, 'began') == 0 or not record.begin(now) then return nil end
  end
  if redis.call('HLEN', COUNTS) > 3 * WORKERS_KNOWN then fold() end
  redis.call('HSETNX', COUNTS, 'settings', settings)
  redis.call('HSETNX', COUNTS, 'joined ' .. worker, whole(now) .. ' ' .. about)
  redis.call('HSET', COUNTS, 'came', whole(now))
  redis.call('HDEL', COUNTS, 'left ' .. worker, 'lost ' .. worker)
  return redis.call('HGET', COUNTS, 'run')
end

-- how: 'left' or 'lost'; returned: how many of its begun requests went back to the queue
function record.ended(worker, how, now, returned)
  if not record.is_open() then return end
  if redis.call('HEXISTS', COUNTS, 'joined ' .. worker) == 1 then
    redis.call('HSETNX', COUNTS, how .. ' ' .. worker, whole(now))
  end
  if returned and returned > 0 then count_up(COUNTS, 'returned', returned) end
end

-- The worker that counted as dead, or as gone, is there.
function record.is_back(worker)
  if record.is_open() then redis.call('HDEL', COUNTS, 'left ' .. worker, 'lost ' .. worker) end
end

-- A request was set aside.
function record.set_aside(kind)
  if record.is_open() then count_up(COUNTS, 'aside ' .. kind, 1) end
end

local function add_slot(slot, responses, ms)
  local n, sum = string.match(redis.call('HGET', SLOT_COUNTS, slot) or '', '^(%d+) (%d+)$')
  n, sum = number_of(n, nil), number_of(sum, 0)
  if not n and redis.call('HLEN', SLOT_COUNTS) >= SLOTS_KNOWN then return end
  redis.call('HSET', SLOT_COUNTS, slot, whole((n or 0) + responses) .. ' ' .. whole(sum + ms))
end

-- Note what a worker has done. counts: of this crawl since it joined, if it knows the name *run* of its record; slots: <slot> ->
-- {responses, milliseconds} since its last report. -> the name of the record
function record.note(worker, run, counts, of_slots, now)
  local current = redis.pcall('HGET', COUNTS, 'run')
  if has_failed(current) then return nil end
  if not current then
    -- The crawl goes on after Redis has lost its data; but a report that comes after its end begins nothing.
    local known = redis.call('HMGET', META, 'began', 'finished')
    if known[2] or not known[1] and redis.call('EXISTS', FINISHED) == 1 then return nil end
    current = record.begin(now)
    if not current then return nil end
  end
  -- A worker that is not in the record joined before Redis lost its data.
  local is_known = run == current and counts and redis.call('HSET', COUNTS, 'done ' .. worker, counts) == 0
  if not is_known then redis.call('HSETNX', COUNTS, 'joined ' .. worker, whole(now) .. ' ') end
  if of_slots and is_usable() then
    for slot, sums in pairs(of_slots) do add_slot(slot, sums[1], sums[2]) end
  end
  return current
end

-- -> the point with the numbers of *added* added to those of *point*; both are texts
local function merged(point, added)
  local second, pages, _, items, errors = string.match(point, '^(%d+) (%d+) (%d+) (%d+) (%d+)')
  local _, more, waiting, more_items, more_errors = string.match(added, '^(%d+) (%d+) (%d+) (%d+) (%d+)')
  if not second then return added end
  if not more then return point end
  return string.format('%s %.0f %s %.0f %.0f', second, pages + more, waiting, items + more_items, errors + more_errors)
end

-- -> the points, with neighbours of *width* seconds merged
local function halved(points, width)
  local result, latest = {}, nil
  for _, point in ipairs(points) do
    local place = math.floor(number_of(string.match(point, '^%d+'), 0) / width)
    if place == latest then
      result[#result] = merged(result[#result], point)
    else
      result[#result + 1], latest = point, place
    end
  end
  return result
end

-- Add ten seconds that are over, an entry of PAGES.
function record.add_to_chart(ten_seconds)
  if not record.is_open() then return end
  local point = string.match(ten_seconds, '^%d+ %d+ %d+ %d+ %d+')
  if not point then return end
  local width = math.max(WIDTH, number_of(redis.call('HGET', COUNTS, 'width'), WIDTH))
  local points = redis.call('LRANGE', CHART, -1, -1)
  if points[1] and #halved({points[1], point}, width) == 1 then
    redis.call('LSET', CHART, -1, merged(points[1], point))
    return
  end
  if redis.call('RPUSH', CHART, point) <= POINTS then return end
  redis.call('HSET', COUNTS, 'width', 2 * width)
  -- Another program may have written more of them.
  points = halved(redis.call('LRANGE', CHART, -2 * POINTS, -1), 2 * width)
  redis.call('DEL', CHART)
  redis.call('RPUSH', CHART, unpack(points))
end

-- -> the chart of the crawl so far. known: the seconds of a point, as in COUNTS; latest: the present ten seconds, an entry of
--    PAGES
function record.chart(known, latest)
  local points = redis.call('LRANGE', CHART, -2 * POINTS, -1)
  points[#points + 1] = string.match(latest, '^%d+ %d+ %d+ %d+ %d+')
  local width = math.max(WIDTH, number_of(known, WIDTH))
  return {width = width, points = halved(points, width)}
end

return record -- seldom used
