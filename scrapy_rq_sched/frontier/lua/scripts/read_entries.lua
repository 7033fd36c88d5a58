-- Needs: helpers
-- Read some entries of one key, each cut to its beginning: so the rest of a long entry is not sent.
--
-- KEYS  the key; for 'fields', one or more
-- ARGV  kind: 'list', 'failed' (the failed list), 'zset', 'stream'; or the command 'HSCAN', 'SSCAN', 'ZSCAN';
--       'fields' (some fields of hashes, in the order of the keys; a missing one is nil), 'string'
--       from: the first index (list; with a negative one the entries before it follow), rank (zset) or id (stream; with
--       '<' before it the entries before it follow), or the cursor; for 'fields', their names,
--       with spaces between them
--       how many entries, at most; for a scan, about how many
--       longest: how many bytes of an entry to send
--       enough: after how many sent bytes the step ends
--       needle: a text that the entries to send contain, or ''
-- Reply {where the next step begins; for each entry its index, score, field or id (or ''), its beginning, and its size}
--       for a failed entry, the beginning is a JSON object in which the long fields are cut
--
-- A step ends early when it has read WORK bytes, because Redis can do nothing else meanwhile. But it reads two entries
-- if there are two: a caller that knows the first one would not come further otherwise.
local kind, from, n, longest, enough, needle = argument(), argument(), number(), number(), number(), argument()
local WORK = 8 * 1024 * 1024
-- How many entries of a list, or of a scan, are read at once: first; at most; and at most if they were this long.
local FIRST, MOST, SHORT = 2, 50, 2000
-- The size of an entry of the failed list that is decoded here; and how many bytes of each of its fields are sent, but
-- of its data as many as of other entries.
local DECODED, FIELD = 8 * 1024 * 1024, 4000
local STRINGS, NUMBERS = {'id', 'kind', 'reason', 'worker', 'history', 'traceback', 'key_type', 'score', 'slot'},
  {'time', 'deliveries', 'deaths', 'size'}

local reply, read, sent, count = {from}, 0, 0, 0

local function is_over()
  return count >= n or count >= 2 and (read >= WORK or sent >= enough)
end

-- -> the text, cut to *most* bytes without cutting a character in half
local function cut(text, most)
  if #text <= most then return text end
  return (string.gsub(string.sub(text, 1, most), '[\192-\255][\128-\191]*$', ''))
end

local function decoded(text)
  if #text > DECODED then return nil end
  local is_json, fields = pcall(cjson.decode, text)
  return is_json and type(fields) == 'table' and fields or nil
end

-- -> the text that the beginning of a JSON string stands for; nil if that is not the beginning of one
local function unquoted(text)
  -- It may end within an escape sequence.
  for last = #text, math.max(0, #text - 6), -1 do
    local is_json, found = pcall(cjson.decode, '["' .. string.sub(text, 1, last) .. '"]')
    if is_json then return #found == 1 and found[1] or nil end
  end
end

-- -> the fields of an entry. If the data is the last one, as store/failures.lua writes it, only its beginning is decoded.
local function fields_of(entry)
  for _, name in ipairs({'data', 'data_hex'}) do
    local field = ',"' .. name .. '":"'
    local at = string.find(entry, field, 1, true)
    local fields = at and decoded(string.sub(entry, 1, at - 1) .. '}')
    if fields and fields.id and fields.reason and fields.time then
      fields[name] = unquoted(string.sub(entry, at + #field, at + #field + longest - 1))
      if fields[name] then return fields end
    end
  end
  return decoded(entry)
end

local function failed(entry)
  if #entry <= longest then return entry end
  local fields, short = fields_of(entry), {}
  if not fields then return string.sub(entry, 1, longest) end
  for _, name in ipairs(STRINGS) do
    if type(fields[name]) == 'string' then short[name] = cut(fields[name], FIELD) end
  end
  for _, name in ipairs(NUMBERS) do
    if type(fields[name]) == 'number' then short[name] = fields[name] end
  end
  if type(fields.data) == 'string' then
    short.data = cut(fields.data, longest)
  elseif type(fields.data_hex) == 'string' then
    short.data_hex = string.sub(fields.data_hex, 1, longest - longest % 2)
  end
  return cjson.encode(short)
end

local function add(name, entry)
  count, read = count + 1, read + #entry
  if needle ~= '' and not string.find(entry, needle, 1, true) then return end
  local beginning = kind == 'failed' and failed(entry) or string.sub(entry, 1, longest)
  sent = sent + #beginning
  reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = name, beginning, #entry
end

-- -> how many entries to read next, after *some* entries of *bytes*
local function following(some, bytes)
  return math.max(1, math.min(n - count, bytes < SHORT * some and math.min(4 * some, MOST) or FIRST))
end

if kind == 'list' or kind == 'failed' then
  local at, some = tonumber(from), math.min(n, FIRST)
  local step = at < 0 and -1 or 1
  while not is_over() do
    local before = read
    local last = at + step * (some - 1)
    local entries = redis.call('LRANGE', KEYS[1], math.min(at, last), math.max(at, last))
    for i = 1, #entries do
      add(tostring(at), entries[step > 0 and i or #entries + 1 - i])
      at = at + step
    end
    if #entries < some then break end
    some = following(some, read - before)
  end
  reply[1] = tostring(at)
elseif kind == 'zset' then
  local at = tonumber(from)
  while not is_over() do
    local found = redis.call('ZRANGE', KEYS[1], at, at, 'WITHSCORES')
    if #found == 0 then break end
    add(found[2], found[1])
    at = at + 1
  end
  reply[1] = tostring(at)
elseif kind == 'stream' then
  local before = string.match(from, '^<(.*)$')
  while not is_over() do
    local found
    if before then
      found = redis.call('XREVRANGE', KEYS[1], before, '-', 'COUNT', 1)[1]
    else
      found = redis.call('XRANGE', KEYS[1], from, '+', 'COUNT', 1)[1]
    end
    if not found then break end
    local event = ''
    for i = 1, #found[2], 2 do
      if found[2][i] == 'event' then event = found[2][i + 1] end
    end
    add(found[1], event)
    if before then before = '(' .. found[1] else from = '(' .. found[1] end
  end
  reply[1] = before and '<' .. before or from
elseif kind == 'string' then
  local text = redis.call('GET', KEYS[1])
  if text then add('', text) end
elseif kind == 'fields' then
  local names = {}
  for name in string.gmatch(from, '%S+') do names[#names + 1] = name end
  for _, key in ipairs(KEYS) do
    if read >= WORK then break end
    -- A key of another type has no fields.
    local values = redis.pcall('HMGET', key, unpack(names))
    for i, name in ipairs(names) do
      if values[i] then
        add(name, values[i])
      else
        reply[#reply + 1], reply[#reply + 2], reply[#reply + 3] = name, false, 0
      end
    end
  end
else
  local cursor, some = from, FIRST
  repeat
    local before = read
    local scanned = redis.call(kind, KEYS[1], cursor, 'COUNT', some)
    cursor = scanned[1]
    for i = 1, #scanned[2], kind == 'SSCAN' and 1 or 2 do
      local entry, other = scanned[2][i], scanned[2][i + 1]
      if kind == 'HSCAN' then
        add(string.sub(entry, 1, longest), other)
      else
        add(kind == 'ZSCAN' and other or '', entry)
      end
    end
    some = following(some, read - before)
  until cursor == '0' or is_over()
  reply[1] = cursor
end
return reply
