-- Needs: keys
-- The items of pages (FRONTIER_ITEMS). They are stored in the step that releases the lease of their page, or not at all.
--   ITEMS             the stored items, for consumers: a list of items, or a stream with the fields item, url, worker, id
--   FEED..<token>     a stream with the fields item and id, for the file of a scrapy frontier crawl
--   ITEM_PART..<worker>/<lease>  some items of a page whose lease is not released: it yields too many for one exchange
--   ITEM_PARTS        the names <worker>/<lease> of all these
--   ITEMS_RELEASED    the parts whose leases are released, in their order. Each exchange moves some of their items to ITEMS.
--                     As long as it has any, further items wait behind them: the items of a page stay together.
--   ITEMS_FORGOTTEN   for each page whose fingerprint was forgotten: how often. Its items get other identities from then on
-- META's field item_parts is '1' if ITEM_PARTS or ITEMS_RELEASED may exist.
local items = {}
-- How many items, and about how many bytes, one exchange moves; how many it moves at a time, and from how many bytes on
-- it moves fewer at a time.
local MOVED, MOVED_BYTES, AT_A_TIME, MANY_BYTES = 2000, 2000000, 100, 250000

-- -> how many items wait for a consumer; the error if their key has another type. kind: 'list', 'stream' or nil
function items.length(kind)
  return kind and redis.pcall(kind == 'stream' and 'XLEN' or 'LLEN', ITEMS) or 0
end

-- -> the same for the files of scrapy frontier crawl; of several, the most
function items.fed(feed)
  local most = 0
  for token in string.gmatch(feed or '', '[^,]+') do
    local length = redis.pcall('XLEN', FEED .. token)
    if has_failed(length) then return length end
    most = math.max(most, length)
  end
  return most
end

-- -> the keys of the items, each with its type
function items.types(kind, feed)
  local types = {{ITEMS_RELEASED, 'list'}, kind and {ITEMS, kind} or nil}
  for token in string.gmatch(feed or '', '[^,]+') do types[#types + 1] = {FEED .. token, 'stream'} end
  return types
end

-- -> how many released parts are not moved yet
function items.unmoved()
  local count = redis.pcall('LLEN', ITEMS_RELEASED)
  return type(count) == 'number' and count or 0
end

-- Items of several pages that follow each other in *values* are appended to a list together: one command is faster than
-- many.
local run
at_begin(function() run = {values = nil, first = 1, last = 0} end)

function items.flush()
  if run.last >= run.first then
    in_chunks(run.values, function(...) redis.call('RPUSH', ITEMS, ...) end, run.first, run.last)
  end
  run = {values = nil, first = 1, last = 0}
end

local function append_to_list(values, first, last)
  if run.values ~= values or run.last + 1 ~= first then
    items.flush()
    run = {values = values, first = first, last = first - 1}
  end
  run.last = last
end

-- Append *values* from *first* to *last*. page: its fields kind (of ITEMS, if the items go there), feed (the tokens, if
-- they go to files), worker, url, id and n, the number of its first item here. The identity of an item is the same
-- whenever its page is delivered. The caller must call items.flush() in the end.
local function append(page, values, first, last)
  if page.kind == 'list' then append_to_list(values, first, last) end
  for i = first, page.kind == 'stream' and last or 0 do
    redis.call('XADD', ITEMS, '*', 'item', values[i], 'url', page.url, 'worker', page.worker,
      'id', page.id .. '-' .. page.n + i - first)
  end
  for token in string.gmatch(page.feed or '', '[^,]+') do
    for i = first, last do
      redis.call('XADD', FEED .. token, '*', 'item', values[i], 'id', page.id .. '-' .. page.n + i - first)
    end
  end
end

local function append_now(...)
  append(...)
  items.flush()
end

-- Keep items of a page until its lease is released.
function items.keep(worker, lease, values, first, last)
  local name = worker .. '/' .. lease
  in_chunks(values, function(...) redis.call('RPUSH', ITEM_PART .. name, ...) end, first, last)
  redis.call('SADD', ITEM_PARTS, name)
  redis.call('HSET', META, 'item_parts', 1)
end

-- Store all items of a page whose lease is released in this script: those that are kept, and the last ones. The caller
-- must call items.flush() in the end.
-- name: <worker>/<lease>, or any new name; has_parts: whether any part may exist. -> how many items the page has
function items.release(name, page, values, first, last, has_parts)
  page.n = 0
  local is_kept = has_parts and redis.call('SREM', ITEM_PARTS, name) == 1
  if not is_kept and not (has_parts and items.unmoved() > 0) then
    append(page, values, first, last)
    return last - first + 1
  end
  if last >= first then
    in_chunks(values, function(...) redis.call('RPUSH', ITEM_PART .. name, ...) end, first, last)
  end
  page.name = name
  redis.call('RPUSH', ITEMS_RELEASED, cjson.encode(page))
  return redis.call('LLEN', ITEM_PART .. name)
end

-- -> the page of an entry of ITEMS_RELEASED; nil if somebody has written something else there
local function page_of(record)
  local is_json, page = pcall(cjson.decode, record)
  if not (is_json and type(page) == 'table') then return end
  for _, field in ipairs({'name', 'worker', 'url', 'id'}) do
    if type(page[field]) ~= 'string' then return end
  end
  local is_page = string.find(page.name, '/', 1, true) and type(page.n) == 'number' and (page.kind == nil or page.kind == 'list' or page.kind == 'stream')
    and (page.feed == nil or type(page.feed) == 'string' and string.find(page.feed, '^[%l%d,]+$'))
  return is_page and page
end

-- Move the next *at_a_time* items of a released part to ITEMS as it is now. -> how many items and bytes; nil if they
-- cannot be moved
local function move_some(record, at_a_time, kind)
  local page, bytes = page_of(record), 0
  local some = page and redis.pcall('LRANGE', ITEM_PART .. page.name, 0, at_a_time - 1) or {}
  if has_failed(some) or #some == 0 then
    redis.call('LPOP', ITEMS_RELEASED)
    return 0, 0
  end
  page.kind = page.kind and kind or page.kind
  -- Without a stream, the items of the page had no identity.
  page.id = page.id ~= '' and page.id or page.name
  -- All or nothing: of two keys, none must get them again.
  if wrong_type(items.types(page.kind, page.feed)) or not pcall(append_now, page, some, 1, #some) then return end
  redis.call('LTRIM', ITEM_PART .. page.name, #some, -1)
  page.n = page.n + #some
  redis.call('LSET', ITEMS_RELEASED, 0, cjson.encode(page))
  for _, item in ipairs(some) do bytes = bytes + #item end
  return #some, bytes
end

-- Move some items of released parts: *more* than usual if others have come behind them, so that their number does not
-- grow. If ITEMS has another type by now, they stay where they are. -> whether some are left that can be moved
function items.move(more, kind)
  local left, bytes, at_a_time, can_move = MOVED + more, MOVED_BYTES, 1, true
  while left > 0 and bytes > 0 and can_move do
    local record = redis.pcall('LINDEX', ITEMS_RELEASED, 0)
    if not record or has_failed(record) then break end
    local count, size = move_some(record, at_a_time, kind)
    can_move = count ~= nil
    left, bytes = left - (count or 0), bytes - (size or 0)
    -- The items are of any size: take few at a time until they are known to be small.
    at_a_time = (size or 0) > MANY_BYTES and 1 or math.min(2 * at_a_time, AT_A_TIME)
  end
  if redis.call('EXISTS', ITEM_PARTS, ITEMS_RELEASED) == 0 then redis.call('HDEL', META, 'item_parts') end
  return can_move and items.unmoved() > 0
end

-- The lease of a page ends otherwise: its page is crawled again, or set aside.
function items.drop(worker, lease)
  local name = worker .. '/' .. lease
  if redis.pcall('SREM', ITEM_PARTS, name) == 1 then redis.call('UNLINK', ITEM_PART .. name) end
end

-- Drop the parts of all leases, because there are none any more. Released ones stay.
function items.drop_all()
  local names = redis.pcall('SMEMBERS', ITEM_PARTS)
  for _, name in ipairs(has_failed(names) and {} or names) do redis.call('UNLINK', ITEM_PART .. name) end
  redis.call('UNLINK', ITEM_PARTS, ITEMS_FORGOTTEN)
end

return items -- seldom used
