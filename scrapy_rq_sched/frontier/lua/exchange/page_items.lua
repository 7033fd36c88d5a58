-- Needs: keys, store/items, store/leases, number_of, exchange/header
-- The items of an exchange: of pages whose leases it releases, parts of pages with very many items, and items that no
-- page of the frontier has led to.
--
-- header.items: how many items there are; header.item_groups: for each page {its number of items, to, its URL, page, mark}.
-- The last three are left out if they are not needed.
--   to: a number: the place of its lease among the finished ones; text: its lease, which is not finished yet; 0: no lease
--   page: a text that is the same for each delivery of the page; '' if it has no lease
--   mark: for an item of start(), which each worker yields: only one of them is stored
-- step: with_items: the finished leases that have items; items: how many were taken, nil if this exchange had none;
--   released: how many are stored with the releases of this exchange, also of parts that were taken before;
--   no_items: '', or why there is no room for items: 'memory', 'bound', 'feed'. Then their leases are not released;
--   unmoved: 'more' if the next exchange can move more items of released parts, 'bound' if there is no room for them
local page_items = {}

-- -> '' if there is room for further items; 'bound' if too many wait for a consumer, 'feed' if too many wait for a file
local function bound()
  if header.max_items and items.length(header.items_as) >= header.max_items then return 'bound' end
  return header.max_feed and items.fed(header.feed) >= header.max_feed and 'feed' or ''
end

-- -> whether an item of start() is the first of its kind in this crawl. To a worker that is late, the crawl is over.
local function is_first(step, mark)
  return (mark or '') == '' or not step.over and redis.call('SADD', STARTED, mark) == 1
end

-- -> the page's text in the identities of its items. If its fingerprint was forgotten, it is crawled several times on
-- purpose: then its entry and the number of times belong to the text. A release counts, too, because the page may have
-- been under way when it was forgotten.
local function text_of(step, page, lease)
  local times = step.meta.item_ids_forgotten and redis.pcall('HGET', ITEMS_FORGOTTEN, page)
  if not times or has_failed(times) then return page end
  redis.call('HINCRBY', ITEMS_FORGOTTEN, page, 1)
  local _, _, _, request = leases.read(redis.call('HGET', step.held, lease))
  return page .. '.' .. times .. '.' .. string.sub(redis.sha1hex(request), 1, 10)
end

-- Store the items of one page. -> how many
local function store_page(step, group, first, last, number)
  local n, to, url, text, mark = unpack(group)
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
  local page = {kind = header.items_as, feed = header.feed, worker = step.worker, url = url or '', id = ''}
  if header.feed or header.items_as == 'stream' then
    text = text ~= '' and text_of(step, text, lease) or step.worker .. '-' .. lease
    page.id = string.format('%.0f-%s', number_of(step.meta.began, 0), text)
  end
  step.released = step.released + items.release(step.worker .. '/' .. lease, page, ARGV, first, last, has_parts)
  return n
end

-- The reply to a repeated exchange, also if the repetition carries no items: whether the first attempt carried some.
local function answer_again(step)
  local before = redis.call('HGET', step.own, 'items') or ''
  local number, stored, no_items = string.match(before, '^(%d+) (%d+) (%l*)$')
  if tonumber(number) == header.exchange then step.items, step.no_items = tonumber(stored), no_items end
end

function page_items.store(step)
  step.with_items = {}
  for _, group in ipairs(header.item_groups or {}) do
    if type(group[2]) == 'number' and group[2] > 0 then
      step.with_items[ARGV[header.first.finished + group[2]]] = true
    end
  end
  if step.repeated then return answer_again(step) end
  step.items, step.no_items = 0, step.full_memory and 'memory' or bound()
  local first = header.first.items
  for number, group in ipairs(step.no_items == '' and header.item_groups or {}) do
    step.items = step.items + store_page(step, group, first + 1, first + group[1], number)
    first = first + group[1]
  end
  items.flush()
  redis.call('HSET', step.own, 'items', whole(header.exchange) .. ' ' .. step.items .. ' ' .. step.no_items)
end

function page_items.move(step)
  if bound() ~= '' then
    step.unmoved = items.unmoved() > 0 and 'bound' or nil
  else
    step.unmoved = items.move(step.items or 0, header.items_as) and 'more' or nil
  end
end

return page_items -- seldom used
