-- Needs: keys, number_of, slots/slots, slots/lanes, slots/waiting, store/leases, store/groups, store/failures, fleet/export_notes, exchange/header
-- Requests that wait for groups (meta["after"]), and what becomes of a group when it is finished.
--
-- step: group_news: {kind, name, number} for the worker's log, see GroupNews in frontier/replies.py; groups_finished:
-- {name, how many of its requests were set aside}: groups for which the worker sends the signal group_finished
local followers = {}
-- How many followers and groups an exchange lets go; and how many groups whose signal was not sent it looks at.
local LET_GO, CLOSED, NEWS = 200, 200, 100
-- How many news an exchange has.
local MOST_NEWS = 20
-- How many followers an exchange looks at to find whether requests would wait for themselves.
local LOOKED_AT = 500
-- An entry of FOLLOWERS, in their order of arrival: when it came, further groups (with '|' before each), rank, place, request.
local ENTRY = '^(%d+%.%d+)(%S*) (%S+) @(%S*) (.*)$'

-- Have a request wait for the group *number*. Not string.format, which ends a short text at a zero byte.
local function wait(number, came, further, rank, place, request)
  redis.call('ZADD', FOLLOWERS, number, came .. further .. ' ' .. rank .. ' @' .. place .. ' ' .. request)
end

-- Have the worker log news of a group, once in an exchange.
local function tell(step, kind, name, number)
  local news = step.group_news or {}
  step.group_news = news
  for _, one in ipairs(news) do
    if one[1] == kind and one[2] == name then return end
  end
  if #news < MOST_NEWS then news[#news + 1] = {kind, name, number} end
end

-- names: of groups, with '|' between them
-- -> the number of the first open group, and the names after it, with '|' before each; or nil, and the first finished group
-- with requests that were set aside, and how many these are
local function first_open(step, names, is_quiet)
  local failed_group, failed = nil, 0
  for name, at in string.gmatch(names, '([^|]+)()') do
    local number = groups.number_of(name)
    if number then return number, string.sub(names, at) end
    local its = groups.done(name)
    if not its and not is_quiet then tell(step, 'never', name) end
    if (its or 0) > 0 and not failed_group then failed_group, failed = name, its end
  end
  return nil, failed_group, failed
end

-- -> whether requests of the group *target* wait, themselves or through others, for the group *name*: then a request of this group
-- that waits for *target* would wait for itself
local function search(step, name, target)
  local known, list = {}, {}
  local function add(names)
    for single in string.gmatch(names or '', '[^|]+') do
      if not known[single] then known[single], list[#list + 1] = true, single end
    end
  end
  add(name)
  local at = 1
  while list[at] and step.looked_at < LOOKED_AT do
    if list[at] == target then return true end
    local its = groups.number_of(list[at])
    step.looked_at = step.looked_at + 1
    for _, entry in ipairs(its and redis.call('ZRANGEBYSCORE', FOLLOWERS, its, its, 'LIMIT', 0, 100) or {}) do
      local _, _, _, _, request = string.match(entry, ENTRY)
      step.looked_at = step.looked_at + 1
      add(request and groups.name_of(request))
    end
    at = at + 1
  end
  return false
end

-- What was found in this exchange.
local answers
at_begin(function() answers = {} end)

-- -> the first of the groups *names* for which no request of the group *name* may wait, because it would wait for itself; or nil.
-- It is found once in an exchange: a circle within one exchange is found only at the end of the crawl.
local function circle_of(step, name, names)
  for target in string.gmatch(names, '[^|]+') do
    local question = name .. ' ' .. target
    if answers[question] == nil then answers[question] = groups.number_of(target) ~= nil and search(step, name, target) end
    if answers[question] then return target end
  end
end

local function set_aside(step, name, rank, place, request, reason)
  local value = leases.value('request', rank, 0, step.second, request, place)
  failures.set_aside(step.worker, {step.prefix .. name, value}, reason, '', 0, header.max_failed, step.now, true)
end

-- Note that a finished group had requests that were set aside, so that its follower is, too.
local function drop(step, name, rank, place, request, group, failed)
  tell(step, 'dropped', group, failed)
  set_aside(step, name, rank, place, request,
    string.format("it waited for group '%s', requests of which were set aside: %d", group, failed))
end

-- Store the i-th push, *request*, in its group, and if it follows a group, until that is finished.
-- -> whether this was all: it waits, or was set aside
function followers.store(step, i, request, place)
  local key = tostring(i)
  local name, after = header.groups and header.groups[key], header.follows and header.follows[key]
  local rank = string.format('%.17g', tonumber(header.ranks and header.ranks[i] or 0))
  local number, rest, failed = nil, nil, 0
  if after then number, rest, failed = first_open(step, after) end
  local circle = number and name and circle_of(step, name, after)
  if name and request ~= '' then
    groups.join(name, groups.member(request))
  elseif name then
    groups.join(name, step.worker .. '/' .. header.members[key])
    redis.call('HSET', step.own, 'g:' .. header.members[key], 1)
  end
  if circle then
    tell(step, 'circle', circle)
    set_aside(step, 'circle' .. i, rank, place, request,
      string.format("it would wait for itself: it is in group '%s', for which group '%s' waits", name, circle))
    return true
  end
  if rest and not number and header.drops_followers then
    drop(step, 'after' .. i, rank, place, request, rest, failed)
    return true
  end
  if not number then return false end
  if slots.is_laned(place) then lanes.add(select(2, lanes.split(place))) end
  local came = string.format('%s.%04d', exact_time(), i)
  wait(number, came, rest, rank, place, request)
  return true
end

-- Let followers of a group go, at most *most*: each to its queue, or to the next group for which it waits. -> how many
local function let_go(step, number, most)
  local found = redis.call('ZRANGEBYSCORE', FOLLOWERS, number, number, 'LIMIT', 0, most)
  local own, ranks, requests, places = redis.call('HGET', GROUPS, '#' .. number), {}, {}, {}
  local own_failed = number_of(redis.call('HGET', GROUPS, '#' .. number .. '!'), 0)
  for i, entry in ipairs(found) do
    local came, names, rank, place, request = string.match(entry, ENTRY)
    redis.call('ZREM', FOLLOWERS, entry)
    local next_number, rest, failed = first_open(step, names or '', true)
    if own_failed > 0 and header.drops_followers then next_number, rest, failed = nil, own or '', own_failed end
    if not request then
      -- Another program has written it.
      set_aside(step, 'group' .. number .. '.' .. i, '0', '', entry, 'it is not a request that waits for a group')
    elseif rest and not next_number and header.drops_followers then
      drop(step, 'group' .. number .. '.' .. i, rank, place, request, rest, failed)
    elseif next_number then
      wait(next_number, came, rest, rank, place, request)
    else
      local at = #requests + 1
      ranks[at], requests[at], places[at] = tonumber(rank) or 0, request, place
      export_notes.note({leases.value('request', rank, 0, step.second, request, place)}, step.now)
    end
  end
  if #requests > 0 then waiting.push(ranks, requests, places) end
  return #found
end

-- Close a group without members. -> whether it is closed: no follower is left
local function close(step, number, name, most)
  if string.find(name, '|', 1, true) then
    for single in string.gmatch(name, '[^|]+') do
      groups.leave('@' .. number .. '@' .. (groups.number_of(single) or ''))
    end
  else
    -- If another program has deleted GROUPS, the group has no name.
    step.let_go = step.let_go + let_go(step, number, most)
    if redis.call('ZCOUNT', FOLLOWERS, number, number) > 0 then return false end
    local failed = number_of(redis.call('HGET', GROUPS, '#' .. number .. '!'), 0)
    -- The signal is sent once for each group, also if later requests have opened it again.
    if name ~= '' and groups.note_done(name, failed) then
      redis.call('HSET', GROUP_NEWS, name, whole(failed) .. ' ')
    end
  end
  redis.call('HDEL', GROUPS, name, '#' .. number, '#' .. number .. '!')
  return true
end

-- Close the groups that have no members any more, the inner ones before the outer ones.
function followers.settle(step)
  step.let_go = 0
  for _ = 1, CLOSED do
    local number = step.let_go < LET_GO and redis.call('ZRANGE', GROUPS_EMPTIED, 0, 0)[1]
    if not number then return end
    local name = redis.call('HGET', GROUPS, '#' .. number) or ''
    -- Another program may have written something else there.
    local is_over = not string.match(number, '^%d+$') or not groups.is_empty(number) or close(step, number, name, LET_GO - step.let_go)
    if is_over then redis.call('ZREM', GROUPS_EMPTIED, number) end
  end
end

-- Note the finished groups that the worker's spider was told, and the requests in its memory that are finished; if the requests
-- are stored that these have led to.
function followers.acknowledge(step)
  if step.stored < header.pushes then return end
  for _, name in ipairs(header.groups_acked or {}) do
    local owner = string.match(redis.call('HGET', GROUP_NEWS, name) or '', ' (.*)$')
    if owner == step.worker then redis.call('HDEL', GROUP_NEWS, name) end
  end
  for _, place in ipairs(header.left_memory or {}) do
    groups.leave(step.worker .. '/' .. place)
    redis.call('HDEL', step.own, 'g:' .. place)
  end
end

-- Choose the finished groups for which this worker sends the signal. Another worker does it if this one dies before.
function followers.announce(step)
  if header.is_closing or step.over or step.order ~= '' then return end
  local found, its = redis.call('HRANDFIELD', GROUP_NEWS, NEWS, 'WITHVALUES'), {}
  for i = 1, #found, 2 do
    local failed, owner = string.match(found[i + 1], '^(%d+) (.*)$')
    failed, owner = failed or '0', owner or ''
    if owner ~= step.worker and (owner == '' or not redis.call('ZSCORE', WORKERS, owner)) then
      owner = step.worker
      redis.call('HSET', GROUP_NEWS, found[i], failed .. ' ' .. owner)
    end
    if owner == step.worker then its[#its + 1] = {found[i], tonumber(failed)} end
  end
  step.groups_finished = #its > 0 and its or nil
end

-- -> the numbers of some open groups that must be closed though they have members; a number may be of no group
local function stuck()
  local found, holding, numbers = redis.call('ZRANGE', FOLLOWERS, 0, LET_GO - 1, 'WITHSCORES'), {}, {}
  for i = 1, #found, 2 do
    local _, _, _, _, request = string.match(found[i], ENTRY)
    for single in string.gmatch(request and groups.name_of(request) or '', '[^|]+') do holding[single] = true end
  end
  -- First the groups that no request holds open that waits itself.
  for i = 2, #found, 2 do
    local number = whole(tonumber(found[i]))
    if not holding[redis.call('HGET', GROUPS, '#' .. number) or ''] then numbers[#numbers + 1] = number end
  end
  -- They wait in a circle.
  if #found > 0 and #numbers == 0 then return {whole(tonumber(found[2]))} end
  if #numbers > 0 then return numbers end
  for _, field in ipairs(redis.call('HRANDFIELD', GROUPS, LET_GO)) do
    local number = string.match(field, '^#(%d+)!?$') or field ~= '#' and groups.number_of(field)
    if number then numbers[#numbers + 1] = number end
    -- A field that another program has written, or of which it has overwritten the other half.
    if field ~= '#' and string.sub(field, 1, 1) ~= '#' and redis.call('HGET', GROUPS, '#' .. (number or '')) ~= field then
      redis.call('HDEL', GROUPS, field)
    end
  end
  return numbers
end

-- -> whether no group is open and nothing waits for one. If there are no other requests, and no worker adds any, the groups
-- that are still open have lost their requests, or wait for each other. They are closed then.
function followers.are_over(step)
  if redis.call('EXISTS', GROUP_NEWS, GROUPS_EMPTIED) > 0 then return false end
  local numbers = stuck()
  for _, number in ipairs(numbers) do
    tell(step, 'stuck', redis.call('HGET', GROUPS, '#' .. number) or number)
    groups.empty(number)
  end
  return #numbers == 0
end

return followers -- seldom used
