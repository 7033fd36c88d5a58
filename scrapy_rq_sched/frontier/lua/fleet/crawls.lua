-- Needs: keys, number_of, fleet/record
-- The history of crawls: each has one entry, which is made of the record of the crawl under way (fleet/record.lua).
--
-- CRAWLS, a hash: '<number>': the entry of a crawl, in JSON, without its chart, which '<number> chart' has; last: the
--   highest number; oldest: the lowest one that is kept
local crawls = {}
-- The workers, and the slots of each kind, in an entry; and how many responses a slot must have to count as slow.
local WORKERS_SHOWN, SLOTS_SHOWN, SOME = 50, 10, 3
-- How many crawls are removed at the end of one, and how many are looked at for the one to compare it with, at most.
local TRIMMED, LOOKED_AT = 100, 100

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

-- -> when the heartbeat of a worker stopped that no other worker has found dead yet; nil if it lives, or is gone
local function stopped_at(worker, now)
  local deadline = tonumber(redis.call('ZSCORE', WORKERS, worker))
  return deadline and deadline <= now and deadline or nil
end

local function workers_of_entry(entry, counts)
  local workers = {}
  entry.done = record.add_up({}, counts.done or '')
  entry.joined, entry.lost = number_of(counts.folded, 0), number_of(counts.folded_lost, 0)
  for field, value in pairs(counts) do
    local worker = string.match(field, '^joined (.*)$')
    if worker then
      local joined, about = string.match(value, '^(%d+) (.*)$')
      local done = counts['done ' .. worker] or ''
      entry.joined = entry.joined + 1
      local left, lost = number_of(counts['left ' .. worker], nil), number_of(counts['lost ' .. worker], nil)
      if not left and not lost then lost = stopped_at(worker, entry.ended) end
      if lost then entry.lost = entry.lost + 1 end
      workers[#workers + 1] = {name = worker, joined = number_of(joined, 0), about = about, done = done, left = left, lost = lost}
    end
    if string.find(field, '^done ') then record.add_up(entry.done, value) end
  end
  table.sort(workers, function(a, b) return a.joined < b.joined end)
  entry.workers = {}
  for i = 1, math.min(#workers, WORKERS_SHOWN) do entry.workers[i] = workers[i] end
end

-- -> the entry of the crawl under way, and its chart; nil if there is none. state: how it stands; reason: why it ended
function crawls.compose(state, reason, now)
  if not record.is_open() then return nil end
  local counts = {}
  for _, pair in ipairs(pairs_of(redis.call('HGETALL', COUNTS))) do counts[pair[1]] = pair[2] end
  local known, latest = redis.call('HMGET', META, 'pages', 'spider'), redis.pcall('LINDEX', PAGES, 0)
  latest = type(latest) == 'string' and latest or ''
  local items, errors, items_before, errors_before = string.match(latest, '^%d+ %d+ %d+ (%d+) (%d+) %d+ (%d+) (%d+)$')
  local entry = {
    v = 1, run = record.number(counts.run), spider = known[2] or nil, state = state, reason = reason,
    began = number_of(counts.began, 0), ended = now,
    pages = number_of(known[1], 0), items = number_of(items, 0) + number_of(items_before, 0),
    errors = number_of(errors, 0) + number_of(errors_before, 0),
    returned = number_of(counts.returned, 0), settings = counts.settings, aside = {},
  }
  for field, value in pairs(counts) do
    local kind = string.match(field, '^aside (.*)$')
    if kind then entry.aside[kind] = number_of(value, 0) end
  end
  workers_of_entry(entry, counts)
  slots_of_entry(entry)
  return entry, record.chart(counts.width, latest)
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
function crawls.write(state, reason, now)
  local most, age = record.limits()
  local entry, chart = crawls.compose(state, reason, now)
  -- A crawl that began without a history has no number.
  if not entry or most == 0 or entry.run == 0 then return nil end
  if state == 'cleared' then
    -- If its workers had left before, and no other has joined since, it ended then.
    local before = redis.call('HGET', CRAWLS, whole(entry.run)) or ''
    local stopped = string.find(before, '"state":"stopped"', 1, true) and string.match(before, '"ended":(%d+)')
    stopped = number_of(stopped, 0)
    if stopped > number_of(redis.call('HGET', COUNTS, 'came'), 0) then entry.ended = stopped end
  end
  -- A crawl may last longer than the history is kept.
  if redis.call('HSETNX', CRAWLS, 'last', whole(entry.run)) == 1 then
    redis.call('HSET', CRAWLS, 'oldest', whole(entry.run))
  end
  redis.call('HSET', CRAWLS, whole(entry.run), cjson.encode(entry), whole(entry.run) .. ' chart', cjson.encode(chart))
  redis.call('EXPIRE', CRAWLS, age)
  trim(entry.run, most, age, now)
  return entry
end

-- -> the figures that differ from those of the last finished crawl before *entry* by at least the share of the settings:
--    {figure, now, before}
function crawls.differences(entry)
  local _, _, share = record.limits()
  local found = {}
  for run = entry.run - 1, math.max(1, entry.run - LOOKED_AT), -1 do
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

return crawls -- seldom used
