-- Needs: keys, store/seeds
-- One step of pushing a list of seeds from a file: append them to the first of the seeds' keys, and note the progress.
--
-- KEYS  as in keys.lua, but only the first of the seeds' keys; then the key of the progress
-- ARGV  digest of the whole list, how many of its seeds were pushed before this step, the type of the seeds' key
--       if it does not exist, for how many seconds the progress is kept, n, then n times: score, seed
-- Reply how many seeds of the list are pushed now. If this is not n more than before, this step was not the next one,
--       and nothing was changed: so a repeated step is applied only once. -1: the list is not known (any more)
local SEEDING = KEYS[#KEYS]
local digest, before, type, seconds, n = argument(), number(), argument(), argument(), number()
local key, at = SEEDS[1], arguments(2 * n)
local is = seeds.type_of(key)
if is ~= 'none' then type = is end
local problem = wrong_type({{SEEDING, 'hash'}}) or not seeds.length[type] and {key, type, 'list'}
if problem then return wrong_type_error(problem) end
local pushed = tonumber(redis.call('HGET', SEEDING, digest)) or -1
if pushed ~= before then return pushed end

-- Redis refuses this first write when its memory is full. Then nothing is pushed.
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
