-- Needs: keys, store/seeds, store/leases, store/histories, store/groups, store/items, fleet/events, fleet/record, count_up
-- Patterns of all UTF-8 characters that are not ASCII. If a text without these characters is not ASCII, it is not
-- UTF-8.
-- There is one pass for each pattern, because a loop over the characters takes Redis seconds for ten megabytes.
local UTF8 = {
  '[\225-\236\238\239][\128-\191][\128-\191]', '[\194-\223][\128-\191]',
  '\224[\160-\191][\128-\191]', '\237[\128-\159][\128-\191]',
  '\240[\144-\191][\128-\191][\128-\191]', '[\241-\243][\128-\191][\128-\191][\128-\191]',
  '\244[\128-\143][\128-\191][\128-\191]',
}
local function is_text(data)
  for _, pattern in ipairs(UTF8) do
    if not string.find(data, '[\128-\255]') then return true end
    -- Put a space in its place, so that the bytes on both sides do not form a character.
    data = string.gsub(data, pattern, ' ')
  end
  return not string.find(data, '[\128-\255]')
end

-- failures.set_aside: move the request or seed of the lease {name, value} of *worker* to the failed list.
-- deliveries: how often it was handed out, in addition to the times in its history; is_quiet: record no event.
local failures = {}

-- How many reasons are counted separately, how long they may be (bytes), and how long they are kept after the last one
-- (seconds).
local REASONS_KNOWN, LONGEST, FOR = 50, 80, 30 * 86400
-- How many bytes a reason may have: it may quote the request.
local LONGEST_REASON = 4000
-- How many bytes are kept of a seed that is too large.
local BEGINNING = 2000
-- The part of a reason that is searched for details (bytes): patterns are slow on long words.
local LOOKED_AT = 200

-- Count *reason* without its details: the text after a colon, numbers, URLs, and quoted text.
local function count(reason)
  reason = events.cut(reason, LOOKED_AT)
  local kind = string.gsub(string.match(reason, '^(.-):%f[%s%z]') or reason, "'.*'", '…')
  kind = string.gsub(string.gsub(kind, '%S+://%S+', '…'), '%d+', '…')
  kind = events.cut(kind, LONGEST)
  if wrong_type({{REASONS, 'hash'}}) then return record.set_aside('other') end
  if redis.call('HEXISTS', REASONS, kind) == 0 and redis.call('HLEN', REASONS) >= REASONS_KNOWN then kind = 'other' end
  record.set_aside(kind)
  count_up(REASONS, kind, 1)
  redis.call('EXPIRE', REASONS, FOR)
end

-- How many bytes of a request are decoded for its URL, because the step must be short; and how many an event has of it,
-- because its text has the reason, too.
local DECODED, LONGEST_URL = 20000, 500

-- -> the URL of a request or seed in JSON, or of a seed that is a URL, without a login; nil if it has another form
local function url_of(data)
  if #data > DECODED then return nil end
  local url = string.match(data, '^%s*(%a[%w+.-]*://%S+)%s*$')
  if not url and string.sub(data, 1, 1) == '{' then
    local is_json, fields = pcall(cjson.decode, data)
    url = is_json and type(fields.url) == 'string' and fields.url
  end
  return url and events.cut(string.gsub(url, '^%s*(%a[%w+.-]*://)[^/?#]*@', '%1'), LONGEST_URL) or nil
end

-- Append *entry* to the list, with *data* as its last field: so a reader finds all other fields at the beginning of an
-- entry of any size (see scripts/read_entries.lua).
local function append(worker, entry, data, most, is_quiet)
  local field, url = 'data', not is_quiet and url_of(data) or nil
  entry.reason = events.cut(entry.reason, LONGEST_REASON)
  if not is_text(data) then
    -- JSON has no bytes. data_hex has two digits for each byte.
    local digits = {}
    for byte = 0, 255 do digits[string.char(byte)] = string.format('%02x', byte) end
    field, data = 'data_hex', (string.gsub(data, '.', digits))
  end
  local head = string.sub(cjson.encode(entry), 1, -2)
  local length = redis.call('RPUSH', FAILED, head .. ',"' .. field .. '":' .. cjson.encode(data) .. '}')
  tally.set_aside = tally.set_aside + 1
  count(entry.reason)
  if not is_quiet then
    events.tell('request_set_aside', worker,
      {reason = entry.reason, kind = entry.kind, entry = entry.id, slot = entry.slot, url = url})
  end
  if length > most then
    redis.call('LTRIM', FAILED, length - most, -1)
    tally.dropped = tally.dropped + length - most
  end
end

function failures.set_aside(worker, lease, reason, traceback, deliveries, most, now, is_quiet)
  local kind, score, _, request, slot = leases.read(lease[2])
  local history = histories.of(request)
  local deaths = histories.count(history, 'died')
  local entry = {
    id = worker .. '/' .. lease[1], kind = seeds.kinds[kind] and 'seed' or 'request', score = score,
    reason = reason, time = math.floor(now / 1000), worker = worker, deaths = deaths,
    deliveries = deaths + histories.count(history, 'unbegun') + histories.count(history, 'refused') + deliveries,
    history = history,
  }
  if traceback ~= '' then entry.traceback = traceback end
  if slot ~= '' then entry.slot = slot end
  if seeds.kinds[kind] then entry.key_type = kind else entry.groups = groups.released(request, true) end
  redis.call('HDEL', HISTORY, redis.sha1hex(request))
  items.drop(worker, lease[1])
  append(worker, entry, request, most, is_quiet)
end

-- Set aside a seed of more than *allowed* bytes: only its beginning is kept. taken: {kind, score, seed}, as from
-- seeds.take; id: unique for this worker
function failures.set_aside_large(worker, id, taken, allowed, most, now)
  local kind, score, seed = unpack(taken)
  append(worker, {
    id = worker .. '/' .. id, kind = 'seed', key_type = kind, score = score, size = #seed,
    reason = string.format('the seed has %d bytes, but FRONTIER_MAX_SEED_BYTES is %d: only its beginning is kept',
      #seed, allowed),
    time = math.floor(now / 1000), worker = worker, deaths = 0, deliveries = 0, history = '',
  }, events.cut(seed, BEGINNING), most)
end

return failures -- seldom used
