-- Needs: keys, slots/waiting, store/seeds, store/leases, store/failures, store/items, fleet/export_notes
-- Put the requests and seeds of {lease, value} pairs back to their old places.
local function put_back(held, worker, most, now)
  if #held == 0 then return end
  table.sort(held, function(a, b) return leases.place(a[1]) < leases.place(b[1]) end)
  local requests, values = {}, {}
  for i, pair in ipairs(held) do
    values[i] = pair[2]
    items.drop(worker, pair[1])
    local kind, score, _, request, slot = leases.read(pair[2])
    if not seeds.kinds[kind] then requests[#requests + 1] = {score, request, slot} end
  end
  -- Seeds are read from the head of their list, so the first one is put back last.
  for i = #held, 1, -1 do
    local kind, score, _, seed = leases.read(held[i][2])
    if seeds.kinds[kind] and not seeds.put_back(kind, score, seed) then
      failures.set_aside(worker, held[i], 'the key of the seeds now has another type', '', 0, most, now)
    end
  end
  waiting.put_back(requests)
  export_notes.note(values, now)
end

return put_back
