-- Take entries out of the failed list, and put what they are of back to where it stood.
--
-- ARGV  worker that stands for whoever asks, most that the failed list keeps, again (0/1: put it back; else it
--       is forgotten), n, then n times: entry, kind, score, request
-- Reply how many there were: another may have taken an entry since it was read; -1: the frontier is exported,
--       and who reads the list would miss what moves
local worker, most_failed, again = argument(), number(), argument()
local problem = wrong_type(TYPES) or QUEUE_TYPE and wrong_type({{REQUESTS, QUEUE_TYPE}})
if problem then
  return wrong_type_error(problem)
end

note_for_export({}, server_time())
if is_exported then return -1 end

local back, found = {}, 0
for i = 1, number() do
  local entry, kind, score, request = argument(), argument(), argument(), argument()
  if redis.call('LREM', FAILED, 1, entry) == 1 then
    found = found + 1
    back[found] = {'0.' .. i, kind .. ' ' .. score .. ' 0 ' .. request}
  end
end
if again == '1' then put_back(back, worker, most_failed, server_time()) end
return found
