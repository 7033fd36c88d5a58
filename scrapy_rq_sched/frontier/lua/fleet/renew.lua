-- Needs: helpers
-- Redis was away, so nobody could be heard: give each member of *key*, a sorted set of deadlines, whose deadline has
-- passed a full lease again. A member gets this only once until it is heard, because nothing tells an outage from a
-- worker that is always late itself, and that worker alone would keep all dead workers alive. A renewed deadline ends
-- in half a millisecond; the deadlines of members that were heard are whole.
local function renew(key, now, lease_ms)
  local passed = redis.call('ZRANGEBYSCORE', key, '-inf', now, 'WITHSCORES')
  for i = 1, #passed, 2 do
    if tonumber(passed[i + 1]) % 1 == 0 then redis.call('ZADD', key, now + lease_ms - 0.5, passed[i]) end
  end
end

return renew
