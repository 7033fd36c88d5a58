-- Needs: keys, queue, seeds, filter, failures, fleet, exchange_begin
-- How an exchange ends: what is known of the crawl, and the reply.

-- The latest ten seconds are at the head: a step of the same length however long the crawl is.
local function note_pages(turn)
  if said.pages == 0 or not turn.made or turn.repeated then return end
  redis.call('HSET', META, 'pages', (tonumber(turn.meta.pages) or 0) + said.pages)
  local second = math.floor(turn.now / 1000)
  local ten_seconds = second - second % 10
  local latest, done = string.match(redis.call('LINDEX', PAGES, 0) or '', '^(%d+) (%d+)')
  if tonumber(latest) == ten_seconds then
    redis.call('LSET', PAGES, 0, ten_seconds .. ' ' .. done + said.pages .. ' ' .. turn.waiting)
  else
    redis.call('LPUSH', PAGES, ten_seconds .. ' ' .. said.pages .. ' ' .. turn.waiting)
    redis.call('LTRIM', PAGES, 0, 360)
  end
end

-- standing, full, told, lost, returned: as in turn; epoch: see change_epoch(); duplicates: places; stored;
-- waiting, delayed, seeds, workers; leased, busy: -1 unless counted; finished: whether the fleet is;
-- set_aside, forgotten: entries of the failed list, new and dropped; dead: names; seeds_problem: a type and a key
local function reply(turn)
  turn.waiting = queue.length()
  note_pages(turn)
  local head = {
    standing = turn.standing, duplicates = turn.duplicates, stored = turn.stored, full = turn.full,
    told = turn.told, lost = turn.lost, returned = turn.returned, dead = table.concat(turn.dead, ' '),
    waiting = turn.waiting, delayed = redis.call('ZCARD', DELAYED), seeds = seeds.count(),
    workers = redis.call('ZCARD', WORKERS), leased = -1, busy = -1, finished = false,
    set_aside = failures.now, forgotten = failures.dropped, seeds_problem = '',
  }
  -- Finished is a fact about the fleet: nothing anywhere, and nobody who could still add.
  if turn.waiting == 0 then
    head.leased, head.busy = fleet.lately(turn.now)
    head.finished = head.leased + head.delayed + head.seeds + head.busy == 0
  end
  if not turn.over then
    redis.call('HSET', META, 'waiting', turn.waiting, 'seen', seen.count())
    -- Of a worker that closes because of it: one that stays open, as a RedisSpider does, waits for more. Who has
    -- slept through the end of its crawl does not know when that was.
    if head.finished and said.finishing and turn.before.over ~= '0' then
      redis.call('HSETNX', META, 'finished', turn.now)
    end
  end
  local problem = seeds.problem()
  if problem then head.seeds_problem = problem[2] .. ' ' .. problem[1] end
  head.epoch = redis.call('HGET', META, 'epoch') or ''
  return {cjson.encode(head), turn.leases}
end
