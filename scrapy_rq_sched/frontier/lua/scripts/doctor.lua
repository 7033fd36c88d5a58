-- Find the commands of the workers' scripts that this user may not call. It tries each command, because not every user
-- may ask Redis for its rights.
--
-- KEYS  a key that never exists
-- Reply the names of the refused commands
local probe, refused = KEYS[1], {}

local function is_refused(...)
  local reply = redis.pcall(...)
  local text = type(reply) == 'table' and reply.err
  if not text then return false end
  for _, header in ipairs({'ACL failure', 'NOPERM', "can't run this command", '[Uu]nknown'}) do
    if string.find(text, header) then
      refused[#refused + 1] = string.lower((...))
      return true
    end
  end
  return false
end

-- This write lets the later ones succeed in a full Redis: see despite_full_memory() in keys.lua.
is_refused('PERSIST', probe)
-- The other commands fail on this text because of its type, but only after Redis has checked the user's rights.
if is_refused('SET', probe, '', 'PX', 1000) then return refused end
local written = redis.pcall('SET', probe, '', 'PX', 1000)
if written.err and not string.find(written.err, 'OOM', 1, true) then
  -- The reason is not a missing right: workers cannot write, either.
  return redis.error_reply(written.err)
end

for _, command in ipairs({
  {'TIME'}, {'TYPE', probe}, {'EXISTS', probe}, {'STRLEN', probe}, {'SMISMEMBER', probe, 'x'}, {'EXPIRE', probe, 1}, {'PEXPIRE', probe, 1000},
  {'GET', probe}, {'GETRANGE', probe, 0, 0}, {'SETRANGE', probe, 'x', ''}, {'OBJECT', 'ENCODING', probe},
  {'XADD', probe, '*', 'x', ''}, {'XLEN', probe}, {'XREVRANGE', probe, '+', '-', 'COUNT', 1}, {'PUBLISH', probe, ''},
  {'HGET', probe, 'x'}, {'HSET', probe, 'x', ''}, {'HDEL', probe, 'x'}, {'HLEN', probe}, {'HEXISTS', probe, 'x'},
  {'HGETALL', probe}, {'HMGET', probe, 'x'}, {'HRANDFIELD', probe, 1}, {'HSTRLEN', probe, 'x'},
  {'HSETNX', probe, 'x', ''}, {'HINCRBY', probe, 'x', 1},
  {'LLEN', probe}, {'LPUSH', probe, 'x'}, {'RPUSH', probe, 'x'}, {'LPOP', probe}, {'RPOP', probe},
  {'LINDEX', probe, 0}, {'LSET', probe, 0, 'x'}, {'LTRIM', probe, 0, -1}, {'LRANGE', probe, 0, 0},
  {'SADD', probe, 'x'}, {'SREM', probe, 'x'}, {'SCARD', probe}, {'SISMEMBER', probe, 'x'}, {'SMEMBERS', probe},
  {'SPOP', probe, 1},
  {'ZADD', probe, 0, 'x'}, {'ZREM', probe, 'x'}, {'ZCARD', probe}, {'ZCOUNT', probe, 0, 0},
  {'ZRANGE', probe, 0, 0}, {'ZRANGEBYSCORE', probe, 0, 0}, {'ZSCORE', probe, 'x'}, {'ZMSCORE', probe, 'x'}, {'ZRANK', probe, 'x'}, {'ZLEXCOUNT', probe, '-', '+'},
  {'ZREMRANGEBYSCORE', probe, 0, 0}, {'ZPOPMIN', probe},
  {'ZPOPMAX', probe}, {'ZRANDMEMBER', probe, 1}, {'RENAME', probe, probe}, {'UNLINK', probe}, {'DEL', probe},
}) do
  is_refused(unpack(command))
end
return refused
