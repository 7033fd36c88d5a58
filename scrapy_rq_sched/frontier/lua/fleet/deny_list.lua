-- Needs: keys
-- The hosts and patterns of URLs of which no worker begins a request: DENIED, a hash from the text to the time (milliseconds).
-- It stays when the crawl is finished. META's field denied is its version; each worker tells in header.denied the version that
-- it knows.
local deny_list = {}

-- -> {the version, the texts}; nil if the worker knows this version
function deny_list.news(step, known)
  local version = step.meta.denied or ''
  if version == (known or '') then return nil end
  -- The version may be gone with the rest of META: with a finished crawl, or because somebody has deleted it.
  if version == '' and redis.call('EXISTS', DENIED) == 1 then
    if step.made then redis.call('HSET', META, 'denied', known) end
    return nil
  end
  local found, texts = redis.pcall('HGETALL', DENIED), {}
  for i = 1, has_failed(found) and 0 or #found, 2 do texts[#texts + 1] = found[i] end
  return {version, texts}
end

-- A worker joins: tell all workers of a list that is older than META.
function deny_list.join()
  if redis.call('EXISTS', DENIED) == 1 then redis.call('HSETNX', META, 'denied', exact_time()) end
end

return deny_list -- seldom used
