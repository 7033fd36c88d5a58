-- What a worker holds: LEASES..worker, a hash of lease -> '<kind> <score> <deaths> <request>'.
-- kind is 'request', or for a seed the type of the key that it came from.
-- A lease is named '<exchange>.<place>': a worker never uses a name twice, so what a worker says
-- late can only ever concern what it was given itself.

local function lease_write(worker, lease, kind, score, deaths, request)
  local value = kind .. ' ' .. score .. ' ' .. deaths .. ' ' .. request
  redis.call('HSET', LEASES .. worker, lease, value)
end

local function lease_read(value)
  return string.match(value, '^(%l+) (%S+) (%d+) (.*)$')
end

-- What befell a request that came back: 'died:<worker>@<second>' or 'refused:<worker>@<second>'.
local function history_of(request)
  return redis.call('HGET', HISTORY, redis.sha1hex(request)) or ''
end

local function history_count(history, what)
  local _, count = string.gsub(' ' .. history, ' ' .. what .. ':', '')
  return count
end

local function history_add(request, what, worker, now)
  local history = history_of(request)
  -- A worker refuses for one reason, however often it is asked.
  if what == 'refused' and string.find(history, 'refused:' .. worker .. '@', 1, true) then
    return history
  end
  local entry = what .. ':' .. worker .. '@' .. math.floor(now / 1000)
  history = history == '' and entry or history .. ' ' .. entry
  redis.call('HSET', HISTORY, redis.sha1hex(request), history)
  return history
end

local UTF8 = {
  '^[%z\1-\127]+', '^[\194-\223][\128-\191]', '^\224[\160-\191][\128-\191]',
  '^[\225-\236\238\239][\128-\191][\128-\191]', '^\237[\128-\159][\128-\191]',
  '^[\240-\244][\128-\191][\128-\191][\128-\191]',
}
local function is_text(data)
  local position = 1
  while position <= #data do
    local last
    for _, pattern in ipairs(UTF8) do
      _, last = string.find(data, pattern, position)
      if last then break end
    end
    if not last then return false end
    position = last + 1
  end
  return true
end

-- Set a request or a seed aside: nobody takes it again by itself, and nothing of it is lost.
local function set_aside(kind, request, reason, worker, now)
  local history = history_of(request)
  local entry = {
    kind = kind == 'request' and 'request' or 'seed', reason = reason,
    time = math.floor(now / 1000), worker = worker, deaths = history_count(history, 'died'),
    history = history,
  }
  if is_text(request) then
    entry.data = request
  else
    -- JSON has no bytes: data_hex is two digits a byte.
    local digits = {}
    for byte = 0, 255 do digits[string.char(byte)] = string.format('%02x', byte) end
    entry.data_hex = string.gsub(request, '.', digits)
  end
  redis.call('RPUSH', FAILED, cjson.encode(entry))
  redis.call('HDEL', HISTORY, redis.sha1hex(request))
end

-- Put {lease, value} pairs back to where they stood. Leases are named in the order they were taken.
local function put_back(held)
  local function place(lease)
    local exchange, position = string.match(lease, '^(%d+)%.(%d+)$')
    return tonumber(exchange) * 100000 + tonumber(position)
  end
  table.sort(held, function(a, b) return place(a[1]) < place(b[1]) end)
  local requests = {}
  for _, pair in ipairs(held) do
    local kind, score, _, request = lease_read(pair[2])
    if kind == 'request' then requests[#requests + 1] = {score, request} end
  end
  -- Seeds are read from the head of their list: the first goes back last.
  for i = #held, 1, -1 do
    local kind, score, _, seed = lease_read(held[i][2])
    if kind ~= 'request' then seed_put_back(kind, score, seed) end
  end
  queue_put_back(requests)
end

-- Does anybody still hold something, or may add something without holding it?
-- -> leased, busy: requests in workers' hands; workers that read start() or crawl from memory.
local function fleet()
  local leased, busy = 0, 0
  for _, worker in ipairs(redis.call('ZRANGE', WORKERS, 0, -1)) do
    leased = leased + redis.call('HLEN', LEASES .. worker)
    busy = busy + (redis.call('HGET', WORKER .. worker, 'busy') == '1' and 1 or 0)
  end
  return leased, busy
end
