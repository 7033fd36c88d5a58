-- Needs: keys, number_of, count_up, slots/slots, slots/waiting, fleet/events, fleet/fleet, exchange/header
-- Caps: how many pages a crawl (FRONTIER_MAX_PAGES) and a slot (max_pages) may have. A request that is new counts as a page
-- when it is stored, unless it continues one: a retry, or a redirect. A request above a cap is dropped before it is marked as
-- seen, so that it is found again if the cap is raised.
--
-- header.max_pages: of the crawl; header.caps: slot -> max_pages in the worker's settings, 0: no cap; header.continued: the
--   place of a push -> 'page': it continues a page of the same slot; 'crawl': of another slot, so it counts as a page of its
--   own slot only
-- SLOT_PAGES, a hash: pages, dropped: the counts of the crawl; 'pages <slot>', 'dropped <slot>': those of a slot with a cap;
--   'max <slot>': a cap that was set during the crawl. No slot's name has a space
-- META's field caps: whether any cap was set during the crawl
local caps = {}
local CRAWL, PAGES_OF, DROPPED_OF, MAX_OF = '', 'pages', 'dropped', 'max'
-- What this exchange has read, by name of a field, false if there is nothing; and what it has added.
local known, added
at_begin(function() known, added = {}, {} end)

-- -> the field of the hash about a slot, or about the crawl
local function field(name, slot)
  return slot == CRAWL and name or name .. ' ' .. slot
end

-- -> the cap of the slot or the crawl: one that was set during the crawl comes before that of the settings, *most*; nil: none
local function cap_of(step, slot, most)
  if not step.meta.caps then return most end
  local name = field(MAX_OF, slot)
  if known[name] == nil then known[name] = number_of(redis.pcall('HGET', SLOT_PAGES, name), false) end
  return known[name] or most
end

-- Read how many pages there are. A crawl, or a slot, that had no cap before counts its pages so far, as far as they are known.
local function read(step, slot)
  local name = field(PAGES_OF, slot)
  if known[name] then return known[name] end
  local found = redis.pcall('HGET', SLOT_PAGES, name)
  local count = number_of(found, nil)
  if not count then
    count = slot ~= CRAWL and waiting.length_of(slot) or number_of(step.meta.pages, 0) + step.waiting + (fleet.count())
    added[name] = count
  end
  known[name] = count
  return count
end

local function add(name, slot)
  local key = field(name, slot)
  added[key] = (added[key] or 0) + 1
  if known[key] then known[key] = known[key] + 1 end
end

-- -> whether there is a cap; and whether the slot, or the crawl, has as many pages as it allows
local function is_met(step, slot, most)
  most = cap_of(step, slot, most)
  if not most or most == 0 then return false, false end
  return true, read(step, slot) >= most
end

-- -> whether the i-th push, which is new, is above a cap; else it is counted
function caps.refuses(step, i, place)
  local slot = slots.slot_of(place)
  local continues = header.continued and header.continued[tostring(i)]
  if continues == 'page' then return false end
  local of_crawl, is_crawl_met = false, false
  if not continues then of_crawl, is_crawl_met = is_met(step, CRAWL, header.max_pages) end
  if is_crawl_met then
    add(DROPPED_OF, CRAWL)
    return true
  end
  local of_slot, is_slot_met = false, false
  if slot ~= '' then of_slot, is_slot_met = is_met(step, slot, header.caps and header.caps[slot]) end
  if is_slot_met then
    add(DROPPED_OF, slot)
    return true
  end
  if of_crawl then add(PAGES_OF, CRAWL) end
  if of_slot then add(PAGES_OF, slot) end
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
  if not header.max_pages then return false end
  local found = redis.pcall('HMGET', SLOT_PAGES, PAGES_OF, DROPPED_OF)
  return number_of(found[2], 0) > 0 and number_of(found[1], 0) >= header.max_pages
end

return caps -- seldom used
