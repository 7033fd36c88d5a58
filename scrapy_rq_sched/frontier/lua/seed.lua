-- Needs: keys, seeds
-- One step of pushing seeds from outside: to the first of the seeds' keys, and how many were pushed is noted.
--
-- KEYS  as in keys.lua, of the seeds' keys only the first; then the seeding
-- ARGV  what is pushed (its digest), how many of it were pushed before this step, the type of the seeds' key
--       if it is not there, for how many seconds this is noted, n, then n times: score, seed
-- Reply how many of it are pushed now. If that is not by n more than before, this step was not the next one,
--       and nothing was changed: so applied twice is applied once. -1: it is not known, or no longer
local SEEDING = KEYS[#KEYS]
local digest, before, type, seconds, n = argument(), number(), argument(), argument(), number()
local key, at = SEEDS[1], arguments(2 * n)
local is = seeds.type_of(key)
if is ~= 'none' then type = is end
local problem = wrong_type({{SEEDING, 'hash'}}) or not seeds.length[type] and {key, type, 'list'}
if problem then return wrong_type_error(problem) end
local pushed = tonumber(redis.call('HGET', SEEDING, digest)) or -1
if pushed ~= before then return pushed end

-- The first write is one that Redis refuses when its memory is full: then nothing is pushed.
if type == 'zset' then
  local scores_and_seeds = {}
  for i = 1, 2 * n do scores_and_seeds[i] = ARGV[at + i - 1] end
  in_chunks(scores_and_seeds, function(...) redis.call('ZADD', key, ...) end)
else
  local values = {}
  for i = 1, n do values[i] = ARGV[at + 2 * i - 1] end
  in_chunks(values, function(...) redis.call(type == 'set' and 'SADD' or 'RPUSH', key, ...) end)
end
redis.call('HSET', SEEDING, digest, pushed + n)
redis.call('EXPIRE', SEEDING, seconds)
return pushed + n
