-- Needs: keys, number_of, count_up, slots/waiting, fleet/events, fleet/fleet, exchange/header
-- Caps: how many pages a crawl (FRONTIER_MAX_PAGES) and a slot (max_pages) may have. A request that is new counts as a page
-- when it is stored, unless it continues one: a retry, or a redirect. A request above a cap is dropped before it is marked as
-- seen, so that it is found again if the cap is raised.
--
-- header.max_pages: of the crawl; header.caps: slot -> max_pages in the worker's settings, 0: no cap; header.continued: the place of a push
--   -> 'page': it continues a page of the same slot; 'crawl': of another slot, so it counts as a page of its own slot only
-- SLOT_PAGES, a hash: pages, dropped: the counts of the crawl; 'pages <slot>', 'dropped <slot>': those of a slot with a cap;
--   'max <slot>': a cap that was set during the crawl. No slot's name has a space
-- META's field caps: whether there are any caps
local caps = {}
local CRAWL, PAGES_OF, DROPPED_OF, MAX_OF = '', 'pages', 'dropped', 'max'
-- What this exchange has read, by name of a field; what it has added; and the slots whose cap is met.
local known, added
at_begin(function() known, added = {}, {} end)

-- -> the field of the hash about a slot, or about the crawl
local function field(name, slot)
  return slot == CRAWL and name or name .. ' ' .. slot
end

-- Read what is not known yet. A crawl that had no cap before counts its pages so far.
local function read(step, slot)
  local pages = field(PAGES_OF, slot)
  if known[pages] then return end
  local found = redis.pcall('HMGET', SLOT_PAGES, pages, field(MAX_OF, slot))
  local count = number_of(found[1], nil)
  if not count then
    count = slot ~= CRAWL and waiting.length_of(slot) or number_of(step.meta.pages, 0) + step.waiting + (fleet.count())
    added[pages] = count
  end
  known[pages] = count
  known[field(MAX_OF, slot)] = number_of(found[2], nil)
end

local function add(name, slot)
  local key = field(name, slot)
  if name == DROPPED_OF then
    added[key] = (added[key] or 0) + 1
  elseif known[key] then
    known[key], added[key] = known[key] + 1, (added[key] or 0) + 1
  end
end

-- -> whether the slot, or the crawl, has as many pages as *most* or a cap that was set allows
local function is_met(step, slot, most)
  if not (most or step.meta.caps and slot ~= CRAWL) then return false end
  read(step, slot)
  most = known[field(MAX_OF, slot)] or most
  return most and most > 0 and known[field(PAGES_OF, slot)] >= most
end

-- -> whether any cap may concern the pushes of this exchange
function caps.apply(step)
  if header.pushes == 0 or step.repeated then return false end
  local has_own = header.max_pages or header.caps
  if has_own and not step.meta.caps then
    redis.call('HSET', META, 'caps', 1)
    step.meta.caps = '1'
  end
  return has_own or step.meta.caps
end

-- -> whether the i-th push, which is new, is above a cap; else it is counted
function caps.refuses(step, i, slot)
  local continues = header.continued and header.continued[tostring(i)]
  if continues == 'page' then return false end
  local own = slot ~= '' and slot or nil
  if not continues and is_met(step, CRAWL, header.max_pages) then
    add(DROPPED_OF, CRAWL)
    return true
  end
  if own and is_met(step, own, header.caps and header.caps[own]) then
    add(DROPPED_OF, own)
    return true
  end
  if not continues and header.max_pages then add(PAGES_OF, CRAWL) end
  if own then add(PAGES_OF, own) end
  return false
end

-- Write the counts, and record the first time that a cap is met.
local function write()
  for name, n in pairs(added) do
    local count = count_up(SLOT_PAGES, name, n)
    local slot = string.match(name, '^' .. DROPPED_OF .. ' ?(.*)$')
    if slot and count == n then
      local limit = slot == CRAWL and 'FRONTIER_MAX_PAGES' or 'max_pages of slot ' .. slot
      events.tell('cap_reached', nil, {slot = slot ~= CRAWL and slot or nil, limit = limit})
    end
  end
  added = {}
end
writers[#writers + 1] = write

-- -> whether the crawl has as many pages as FRONTIER_MAX_PAGES allows, and further ones were dropped
function caps.have_ended(step)
  if not (step.meta.caps and header.max_pages) then return false end
  local found = redis.pcall('HMGET', SLOT_PAGES, PAGES_OF, DROPPED_OF)
  return number_of(found[2], 0) > 0 and number_of(found[1], 0) >= header.max_pages
end

return caps -- seldom used
