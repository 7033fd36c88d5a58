-- Needs: keys, number_of
-- Groups of requests (meta["group"]): other requests can wait until nothing of a group is left (meta["after"]).
--
-- GROUPS: a hash. '<name>' is the number of an open group, '#<number>' its name, '#<number>!' how many of its requests were
-- set aside; '#' is the last number. META's field groups is there once a group was used.
-- GROUP_MEMBERS: a sorted set of the members. Score: the number of the group times SPAN, plus a number below SPAN that rises
-- with time: so members of a large group that come and go together are near each other in memory. A request is a member from
-- when it is stored until it is finished, set aside or dropped, wherever it is meanwhile: so no move needs to be counted. All
-- requests of groups have different bytes.
-- A request may be in several groups. Together these are one more group, named '<name>|<name>'. While that one has members,
-- '@<its number>@<number>' is a member of each of them.
-- GROUPS_EMPTIED: numbers of groups without members. exchange/followers.lua closes them.
-- GROUPS_DONE: a sorted set of the finished groups, the latest ones. Score: when they finished (milliseconds), times 1000; plus
-- how many of their requests were set aside, at most 999.
local groups = {}
local SPAN = 2 ^ 26
-- How many characters of a hash are kept.
local DIGITS = 16
-- How many finished groups are remembered.
local KEPT = 100000
local COUNT_OF = {hash = 'HLEN', zset = 'ZCARD'}
-- Whether groups were ever used, once that is known; and how many members this script has added.
local are_used, added
at_begin(function() are_used, added = nil, 0 end)

-- Tell this module META's field groups, if the caller has already read it. is_made: whether META is there: somebody may have
-- deleted it.
function groups.know(field, is_made)
  are_used = field and true or not is_made and redis.call('EXISTS', GROUPS) == 1
end

-- Append replies to *replies* that are errors if a key has a wrong type.
function groups.read(replies)
  for _, key in ipairs(groups.types()) do replies[#replies + 1] = redis.pcall(COUNT_OF[key[2]], key[1]) end
end

-- -> {key, its type} for each of the keys
function groups.types()
  return {{GROUPS, 'hash'}, {GROUP_MEMBERS, 'zset'}, {FOLLOWERS, 'zset'}, {GROUPS_EMPTIED, 'zset'}, {GROUPS_DONE, 'zset'},
    {GROUP_NEWS, 'hash'}}
end

function groups.are_used()
  if are_used == nil then groups.know(redis.call('HGET', META, 'groups'), true) end
  return are_used
end

-- -> the member that stands for a request
function groups.member(request)
  return string.sub(redis.sha1hex(request), 1, DIGITS)
end

-- Note that groups are used.
local function use()
  if redis.call('HSETNX', META, 'groups', 1) == 1 then are_used = true end
end

-- META is new: somebody may have deleted the one that knew of the groups.
function groups.restore()
  if redis.call('EXISTS', GROUPS) == 1 then use() end
end

local function add(number, member)
  local seconds, microseconds = clock()
  added = added + 1
  redis.call('ZADD', GROUP_MEMBERS, number * SPAN + (seconds * 1000000 + microseconds + added) % SPAN, member)
end

-- -> the number of an open group; nil if it is not open, or if another program has written something else there
function groups.number_of(name)
  return string.match(redis.call('HGET', GROUPS, name) or '', '^%d+$')
end

-- -> the number of a group, which is opened if it is not open
local function open(name)
  local number = groups.number_of(name)
  if number then return number end
  use()
  number = whole(number_of(redis.call('HGET', GROUPS, '#'), 0) + 1)
  redis.call('HSET', GROUPS, '#', number, name, number, '#' .. number, name)
  if string.find(name, '|', 1, true) then
    for single in string.gmatch(name, '[^|]+') do
      local outer = open(single)
      add(outer, '@' .. number .. '@' .. outer)
    end
  end
  return number
end

-- Add a member to the group *name*.
function groups.join(name, member)
  add(open(name), member)
end

-- -> the number and the name of a member's group; nil if it is in none
local function group_of(member)
  local number = redis.call('ZSCORE', GROUP_MEMBERS, member)
  if not number then return end
  number = whole(math.floor(tonumber(number) / SPAN))
  return number, redis.call('HGET', GROUPS, '#' .. number)
end

-- -> the name of a request's group; nil if it is in none
function groups.name_of(request)
  if not groups.are_used() then return end
  local _, name = group_of(groups.member(request))
  return name or nil
end

-- -> the first and the last score of a group's members
local function range(number)
  return whole(number * SPAN), whole((number + 1) * SPAN - 1)
end

-- -> whether a group has no members
function groups.is_empty(number)
  local first, last = range(number)
  return #redis.call('ZRANGEBYSCORE', GROUP_MEMBERS, first, last, 'LIMIT', 0, 1) == 0
end

-- Remove all members of a group.
function groups.empty(number)
  redis.call('ZREMRANGEBYSCORE', GROUP_MEMBERS, range(number))
  redis.call('ZADD', GROUPS_EMPTIED, 0, number)
end

-- Remove a member from its group. has_failed: it was set aside. -> the name of the group; nil if it was in none
function groups.leave(member, has_failed)
  local number, name = group_of(member)
  if not number then return end
  redis.call('ZREM', GROUP_MEMBERS, member)
  for single in string.gmatch(has_failed and name or '', '[^|]+') do
    local its = groups.number_of(single)
    if its then
      local field = '#' .. its .. '!'
      redis.call('HSET', GROUPS, field, whole(number_of(redis.call('HGET', GROUPS, field), 0) + 1))
    end
  end
  if groups.is_empty(number) then redis.call('ZADD', GROUPS_EMPTIED, 0, number) end
  return name or nil
end

-- Note that a request has left the frontier; as groups.leave
function groups.released(request, has_failed)
  if groups.are_used() then return groups.leave(groups.member(request), has_failed) end
end

-- Note that the bytes of a request have changed.
function groups.replaced(before, after)
  local number = groups.are_used() and redis.call('ZSCORE', GROUP_MEMBERS, groups.member(before))
  if not number then return end
  redis.call('ZREM', GROUP_MEMBERS, groups.member(before))
  redis.call('ZADD', GROUP_MEMBERS, number, groups.member(after))
end

-- Note that requests in the memory of *worker*, which no longer counts as alive, are lost.
function groups.forget_worker(worker)
  local fields = groups.are_used() and redis.pcall('HGETALL', WORKER .. worker) or {}
  for i = 1, #fields, 2 do
    local place = string.match(fields[i], '^g:(.*)$')
    if place then groups.leave(worker .. '/' .. place, false) end
  end
end

-- -> how many requests of a finished group were set aside; nil if no such group has finished
function groups.done(name)
  local score = redis.call('ZSCORE', GROUPS_DONE, name)
  return score and tonumber(score) % 1000 or nil
end

-- Note that a group has finished, of which *failed* requests were set aside. -> whether it is the first time
function groups.note_done(name, failed)
  local is_first = redis.call('ZADD', GROUPS_DONE, server_time() * 1000 + math.min(failed, 999), name) == 1
  if is_first and redis.call('ZCARD', GROUPS_DONE) > KEPT then redis.call('ZPOPMIN', GROUPS_DONE) end
  return is_first
end

-- A crawl begins: forget the finished groups of the last one; and if *all*, also what waits.
function groups.begin_anew(all)
  if all then return groups.clear() end
  redis.call('UNLINK', GROUPS_DONE, GROUP_NEWS)
end

-- Delete all groups, and the requests that wait for them.
function groups.clear()
  redis.call('UNLINK', GROUPS, GROUP_MEMBERS, FOLLOWERS, GROUPS_EMPTIED, GROUPS_DONE, GROUP_NEWS)
  redis.call('HDEL', META, 'groups')
  are_used = false
end

return groups -- seldom used
