-- Needs: keys, slots/slots, slots/outside_turns, slots/limits, slots/shared_slots, exchange/header, exchange/slot_policy
-- AutoThrottle for the fleet: one delay for a slot, from the latencies that all workers report. The formula is that of Scrapy's
-- extension (scrapy.extensions.throttle).
--
-- header.latencies: slot -> latencies of responses (milliseconds), in their order; with a minus if the status was not 200
-- header.throttle: {how many requests shall be under way at a time, the shortest delay, the longest}, in milliseconds
local throttle = {}

-- -> the delay after these responses
local function find(delay, latencies)
  local target, least, most = unpack(header.throttle)
  for _, latency in ipairs(latencies) do
    local wanted = math.abs(latency) / target
    local next_delay = math.min(math.max(wanted, (delay + wanted) / 2, least), most)
    -- Errors are often answered fast.
    if latency > 0 or next_delay > delay then delay = next_delay end
  end
  return delay
end

function throttle.hear(step)
  for slot, latencies in pairs(header.latencies) do
    local state = limits.of(slot, slot_policy.all)
    local before = outside_turns.least_gap(state)
    limits.set(state, 'throttle', find(state.throttle > 0 and state.throttle or state.own_delay, latencies))
    -- The next turn was found with the delay before.
    local gap = outside_turns.least_gap(state)
    if gap ~= before then
      local soonest = math.max(state.sent + gap * (1 + state.pending), outside_turns.earliest(state))
      state.tat = math.max(state.tat + gap - before, soonest)
      limits.set_turn(state, state.owner)
      shared_slots.moved(slot)
    end
    step.meta.limited, step.is_limited = step.meta.limited or slots.ONLY_STATES, true
    limits.change(state)
  end
  redis.call('HSETNX', META, 'limited', slots.ONLY_STATES)
end

return throttle -- seldom used
