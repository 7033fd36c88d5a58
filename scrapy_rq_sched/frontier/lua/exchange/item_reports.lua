-- Needs: store/pool_items, exchange/header
-- Take the worker's reports of items of pools: {pool, item, report}, see store/pool_items.lua.
--
-- step: retired_items: {pool, item, reason, whether other items are left} for each that a report retires
local item_reports = {}

function item_reports.hear(step)
  for _, its in ipairs(step.repeated and {} or header.pool_reports) do
    local pool, item, report = unpack(its)
    local reason = pool_items.hear(pool, item, report, step.worker)
    if reason then
      step.retired_items = step.retired_items or {}
      step.retired_items[#step.retired_items + 1] = {pool, item, reason, pool_items.are_left(pool)}
    end
  end
end

return item_reports -- seldom used
