-- Needs: keys, number_of, count_up
-- The record of a crawl: what it did while it runs, and its entry in the history of crawls.
--
-- COUNTS, a hash: run: the number of the crawl; began: when it began; settings: those that matter, in JSON; folded, folded_lost,
--   done: of workers that are gone, how many there were, how many of these died, and what they did together; for each other
--   worker
--   'joined <worker>': '<time> <its description>', 'left <worker>' or 'lost <worker>': the time, 'done <worker>': what it
--   has done, as '<name>=<number> …'; 'aside <reason>': how many requests were set aside; returned: how many begun requests
--   of dead workers went back to the queue. Times are in milliseconds
-- SLOT_COUNTS, a hash: '<responses> <milliseconds>' for each slot
-- CHART, a list: '<second> <pages> <waiting> <items> <errors>' for each part of the crawl, of as many seconds as
--   COUNTS' field width says
-- CRAWLS, a hash: '<number>': the entry of a crawl, in JSON, without its chart, which '<number> chart' has; last: the
--   highest number; oldest: the lowest one that is kept
--
-- Records are optional: if a key has a wrong type, the crawl goes on without them.
local record = {}
-- The workers, slots and points that a record has at most; and the workers and slots of each kind in an entry.
local WORKERS_KNOWN, SLOTS_KNOWN, POINTS = 1000, 1000, 120
local WORKERS_SHOWN, SLOTS_SHOWN = 50, 10
-- How many crawls are removed at the end of one, at most.
local TRIMMED = 100
-- The seconds of a point at first; and how many responses a slot must have to count as slow.
local WIDTH, SOME = 10, 3
-- META's field history: how many crawls are kept, for how many seconds, and from which share on a figure that differs from
-- the crawl before is an event.
local KEPT, FOR, SHARE = 100, 90 * 86400, 0.3
-- The most seconds for which a history is kept.
local LONGEST = 100 * 365 * 86400

local function is_usable()
  return not wrong_type({{COUNTS, 'hash'}, {SLOT_COUNTS, 'hash'}, {CHART, 'list'}, {CRAWLS, 'hash'}})
end

-- -> how many crawls are kept, for how long, and the share
local function limits()
  local known = redis.call('HGET', META, 'history') or ''
  local most, age, share = string.match(known, '^(%d+) (%d+) ([%d.]+)$')
  return number_of(most, KEPT), math.min(number_of(age, FOR), LONGEST), number_of(share, SHARE)
end

-- Begin the record of a crawl. -> its number, which is 0 if there is no history
function record.begin(now)
  if not is_usable() then return nil end
  redis.call('DEL', COUNTS, SLOT_COUNTS, CHART)
  local most, age = limits()
  local run = '0'
  if most > 0 then
    count_up(CRAWLS, 'last', 1)
    run = redis.call('HGET', CRAWLS, 'last')
    redis.call('EXPIRE', CRAWLS, age)
  end
  -- Redis may have lost the crawl's data, which goes on.
  redis.call('HSETNX', META, 'began', now)
  redis.call('HSET', COUNTS, 'run', run, 'began', redis.call('HGET', META, 'began'))
  return run
end

function record.clear()
  redis.call('UNLINK', COUNTS, SLOT_COUNTS, CHART)
end

-- -> whether a crawl is under way
local function is_open()
  return is_usable() and redis.call('HEXISTS', COUNTS, 'run') == 1
end

-- -> {<name> = <number>, …}, with the numbers of *text* added to those of *sums*
local function add_up(sums, text)
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
      add_up(sums, redis.call('HGET', COUNTS, 'done ' .. worker) or '')
      ended, lost = ended + 1, lost + (string.find(field, '^lost ') and 1 or 0)
      redis.call('HDEL', COUNTS, field, 'joined ' .. worker, 'done ' .. worker)
    end
  end
  add_up(sums, redis.call('HGET', COUNTS, 'done') or '')
  local parts = {}
  for name, value in pairs(sums) do parts[#parts + 1] = string.format('%s=%.0f', name, value) end
  redis.call('HSET', COUNTS, 'done', table.concat(parts, ' '))
  count_up(COUNTS, 'folded', ended)
  count_up(COUNTS, 'folded_lost', lost)
end

-- about: the worker's description of itself; settings: those that matter; both in JSON. -> the number of the crawl
function record.joined(worker, about, settings, now)
  if not is_open() then return nil end
  if redis.call('HLEN', COUNTS) > 3 * WORKERS_KNOWN then fold() end
  redis.call('HSETNX', COUNTS, 'settings', settings)
  redis.call('HSETNX', COUNTS, 'joined ' .. worker, whole(now) .. ' ' .. about)
  redis.call('HDEL', COUNTS, 'left ' .. worker, 'lost ' .. worker)
  return redis.call('HGET', COUNTS, 'run')
end

-- how: 'left' or 'lost'; returned: how many of its begun requests went back to the queue
function record.ended(worker, how, now, returned)
  if not is_open() then return end
  if redis.call('HEXISTS', COUNTS, 'joined ' .. worker) == 1 then
    redis.call('HSETNX', COUNTS, how .. ' ' .. worker, whole(now))
  end
  if returned and returned > 0 then count_up(COUNTS, 'returned', returned) end
end

-- The worker that counted as dead, or as gone, is there.
function record.is_back(worker)
  if is_open() then redis.call('HDEL', COUNTS, 'left ' .. worker, 'lost ' .. worker) end
end

-- A request was set aside.
function record.set_aside(kind)
  if is_open() then count_up(COUNTS, 'aside ' .. kind, 1) end
end

local function add_slot(slot, responses, ms)
  local n, sum = string.match(redis.call('HGET', SLOT_COUNTS, slot) or '', '^(%d+) (%d+)$')
  n, sum = number_of(n, nil), number_of(sum, 0)
  if not n and redis.call('HLEN', SLOT_COUNTS) >= SLOTS_KNOWN then return end
  redis.call('HSET', SLOT_COUNTS, slot, whole((n or 0) + responses) .. ' ' .. whole(sum + ms))
end

-- Note what a worker has done. counts: of this crawl since it joined, if it knows the crawl's number *run*; slots: <slot> ->
-- {responses, milliseconds} since its last report. -> the number of the crawl
function record.note(worker, run, counts, of_slots, now)
  if not is_usable() then return nil end
  local number = redis.call('HGET', COUNTS, 'run') or record.begin(now)
  if run == number and counts then redis.call('HSET', COUNTS, 'done ' .. worker, counts) end
  for slot, sums in pairs(of_slots or {}) do add_slot(slot, sums[1], sums[2]) end
  return number
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
  if not is_open() then return end
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

-- -> the first *most* of the slots, each as {name, responses, milliseconds on average}
local function slots_by(key, found, most)
  table.sort(found, function(a, b) return a[key] > b[key] or a[key] == b[key] and a[1] < b[1] end)
  local result = {}
  for i = 1, math.min(most, #found) do result[i] = found[i] end
  return result
end

local function slots_of_entry(entry)
  local found, slow = {}, {}
  for _, pair in ipairs(pairs_of(redis.call('HGETALL', SLOT_COUNTS))) do
    local n, ms = string.match(pair[2], '^(%d+) (%d+)$')
    n, ms = number_of(n, 0), number_of(ms, 0)
    if n > 0 then found[#found + 1] = {pair[1], n, math.floor(ms / n + 0.5)} end
  end
  for _, slot in ipairs(found) do
    if slot[2] >= SOME then slow[#slow + 1] = slot end
  end
  entry.slots, entry.largest, entry.slowest = #found, slots_by(2, found, SLOTS_SHOWN), slots_by(3, slow, SLOTS_SHOWN)
end

local function workers_of_entry(entry, counts)
  local workers = {}
  entry.done = add_up({}, counts.done or '')
  entry.joined, entry.lost = number_of(counts.folded, 0), number_of(counts.folded_lost, 0)
  for field, value in pairs(counts) do
    local worker = string.match(field, '^joined (.*)$')
    if worker then
      local joined, about = string.match(value, '^(%d+) (.*)$')
      local done = counts['done ' .. worker] or ''
      entry.joined = entry.joined + 1
      if counts['lost ' .. worker] then entry.lost = entry.lost + 1 end
      workers[#workers + 1] = {name = worker, joined = number_of(joined, 0), about = about, done = done,
        left = number_of(counts['left ' .. worker], nil), lost = number_of(counts['lost ' .. worker], nil)}
    end
    if string.find(field, '^done ') then add_up(entry.done, value) end
  end
  table.sort(workers, function(a, b) return a.joined < b.joined end)
  entry.workers = {}
  for i = 1, math.min(#workers, WORKERS_SHOWN) do entry.workers[i] = workers[i] end
end

-- -> the entry of the crawl under way, and its chart; nil if there is none. state: how it stands; reason: why it ended
function record.compose(state, reason, now)
  if not is_open() then return nil end
  local counts = {}
  for _, pair in ipairs(pairs_of(redis.call('HGETALL', COUNTS))) do counts[pair[1]] = pair[2] end
  local known, latest = redis.call('HMGET', META, 'pages', 'spider'), redis.pcall('LINDEX', PAGES, 0)
  latest = type(latest) == 'string' and latest or ''
  local items, errors = string.match(latest, '^%d+ %d+ %d+ %d+ %d+ %d+ (%d+) (%d+)$')
  local entry = {
    v = 1, run = number_of(counts.run, 0), spider = known[2] or nil, state = state, reason = reason,
    began = number_of(counts.began, 0), ended = now,
    pages = number_of(known[1], 0), items = number_of(items, 0), errors = number_of(errors, 0),
    returned = number_of(counts.returned, 0), settings = counts.settings, aside = {},
  }
  for field, value in pairs(counts) do
    local kind = string.match(field, '^aside (.*)$')
    if kind then entry.aside[kind] = number_of(value, 0) end
  end
  workers_of_entry(entry, counts)
  slots_of_entry(entry)
  local points = redis.call('LRANGE', CHART, -2 * POINTS, -1)
  points[#points + 1] = string.match(latest, '^%d+ %d+ %d+ %d+ %d+')
  local width = math.max(WIDTH, number_of(counts.width, WIDTH))
  return entry, {width = width, points = halved(points, width)}
end

local function trim(run, most, age, now)
  -- Older ones were removed when earlier crawls ended. If fewer are kept now, this takes some crawls.
  local oldest = number_of(redis.call('HGET', CRAWLS, 'oldest'), 1)
  for _ = 1, TRIMMED do
    if oldest >= run then break end
    local entry = redis.call('HGET', CRAWLS, whole(oldest)) or ''
    local ended = number_of(string.match(entry, '"ended":(%d+)'), 0)
    if oldest > run - most and ended >= now - 1000 * age then break end
    redis.call('HDEL', CRAWLS, whole(oldest), whole(oldest) .. ' chart')
    oldest = oldest + 1
  end
  redis.call('HSET', CRAWLS, 'oldest', whole(oldest))
end

-- Write the entry of the crawl under way into the history, in the place of an earlier one of the same crawl. -> the entry
function record.write(state, reason, now)
  local most, age = limits()
  local entry, chart = record.compose(state, reason, now)
  if not entry or most == 0 then return nil end
  redis.call('HSET', CRAWLS, whole(entry.run), cjson.encode(entry), whole(entry.run) .. ' chart', cjson.encode(chart))
  redis.call('EXPIRE', CRAWLS, age)
  trim(entry.run, most, age, now)
  return entry
end

-- -> the figures that differ from those of the last finished crawl before *entry* by at least the share of the settings:
--    {figure, now, before}
function record.differences(entry)
  local _, _, share = limits()
  local found = {}
  for run = entry.run - 1, math.max(1, entry.run - KEPT), -1 do
    local is_json, before = pcall(cjson.decode, share > 0 and redis.call('HGET', CRAWLS, whole(run)) or '')
    if share == 0 then return found end
    if is_json and type(before) == 'table' and before.state == 'finished' then
      for _, figure in ipairs({'pages', 'items'}) do
        local was = tonumber(before[figure]) or 0
        if was > 0 and math.abs(entry[figure] - was) >= share * was then
          found[#found + 1] = {figure, entry[figure], was}
        end
      end
      return found
    end
  end
  return found
end

return record -- seldom used
