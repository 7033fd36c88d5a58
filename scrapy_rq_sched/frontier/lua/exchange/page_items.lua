-- Needs: keys, store/items, number_of, exchange/header
-- The items of an exchange: of pages whose leases it releases, parts of pages with very many items, and items that no
-- page of the frontier has led to.
--
-- header.items: how many items there are; header.item_groups: for each page {its number of items, to, its URL, page, mark}
--   to: a number: the place of its lease among the finished ones; text: its lease, which is not finished yet; 0: no lease
--   page: a text that is the same for each delivery of the page; '' if it has no lease
--   mark: for an item of start(), which each worker yields: only one of them is stored
-- step: with_items: the finished leases that have items; items: how many were stored; no_items: '', or why there is no
--   room for items: 'memory', 'bound'. Then their leases are not released
local page_items = {}
local ARGV = ARGV

local function lacks_room(step)
  if step.full_memory then return 'memory' end
  local is_bound = header.max_items and items.length(header.items_as, header.feed) >= header.max_items
  return is_bound and 'bound' or ''
end

-- -> whether an item of start() is the first of its kind in this crawl. To a worker that is late, the crawl is over.
local function is_first(step, mark)
  return not mark or not step.over and redis.call('SADD', STARTED, mark) == 1
end

-- Store the items of one page. -> how many
local function store_page(step, group, first, last, number)
  local n, to, url, id, mark = unpack(group)
  local page = {kind = header.items_as, feed = header.feed, worker = step.worker, url = url}
  local has_parts = step.meta.item_parts
  if type(to) == 'string' then
    if redis.call('HEXISTS', step.held, to) == 0 then return 0 end
    items.keep(step.worker, to, ARGV, first, last)
    step.meta.item_parts = '1'
    return n
  end
  local lease = step.prefix .. 'i' .. number
  if to > 0 then
    lease = ARGV[header.first.finished + to]
    -- A late worker's items are refused with its lease. And children come before the parent.
    if (header.after and header.after[to] or 0) > step.stored then return 0 end
    if redis.call('HEXISTS', step.held, lease) == 0 then return 0 end
  elseif not is_first(step, mark) then
    return 0
  end
  page.id = string.format('%.0f-%s', number_of(step.meta.began, 0), id ~= '' and id or step.worker .. '-' .. lease)
  items.release(step.worker .. '/' .. lease, page, ARGV, first, last, has_parts)
  return n
end

function page_items.store(step)
  step.with_items, step.items = {}, 0
  for _, group in ipairs(header.item_groups) do
    if type(group[2]) == 'number' and group[2] > 0 then
      step.with_items[ARGV[header.first.finished + group[2]]] = true
    end
  end
  if step.repeated then
    step.items, step.no_items = string.match(redis.call('HGET', step.own, 'items') or '', '^(%d+) (%l*)$')
    step.items = number_of(step.items, 0)
    return
  end
  step.no_items = lacks_room(step)
  local first = header.first.items
  for number, group in ipairs(step.no_items == '' and header.item_groups or {}) do
    step.items = step.items + store_page(step, group, first + 1, first + group[1], number)
    first = first + group[1]
  end
  redis.call('HSET', step.own, 'items', step.items .. ' ' .. step.no_items)
end

return page_items -- seldom used
