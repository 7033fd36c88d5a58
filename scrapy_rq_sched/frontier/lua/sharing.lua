-- Needs: keys, slots
-- Let several spiders that share the states of slots take turns (FRONTIER_SLOTS_KEY). Otherwise a spider that takes
-- each turn of a slot ahead of its time would keep the slot forever. So the state of a slot also has: last, the spider
-- that had its last turn; asked_by, another spider that has asked in vain since; asked, the time of that. The next turn
-- is left to that spider. The key META identifies a spider.
local sharing = {}
-- Milliseconds: how long a turn is left to the other spider; how long the state is kept if it has no other fields.
local LEFT_FOR, KEPT = 1000, 600000

function sharing.is_left_to_another(state)
  return slots.are_shared and state.asked_by ~= META and state.asked > slots.now() - LEFT_FOR
end

-- There is no turn for this spider now: note that it has asked. -> no turns, and when there may be some
function sharing.ask_for(state, at)
  if slots.are_shared and state.last ~= META then
    local key = SLOT .. state.slot
    redis.call('HSET', key, 'asked', string.format('%.0f', slots.now()), 'asked_by', META)
    local latest = math.max(slots.now(), state.tat, state.blocked)
    redis.call('PEXPIRE', key, string.format('%.0f', KEPT + latest - slots.now()))
  end
  return {}, at
end

-- Note that this spider is given a turn.
function sharing.had(state)
  if not slots.are_shared then return end
  redis.call('HSET', SLOT .. state.slot, 'last', META)
  if state.asked_by == META then redis.call('HDEL', SLOT .. state.slot, 'asked', 'asked_by') end
end

return sharing
