-- Needs: keys, slots
-- How several spiders that have the same states of slots take turns (FRONTIER_SLOTS_KEY). Who takes each turn of a slot
-- ahead of its time would have it for ever. So of the state of a slot are known: last, the spider that had its last turn;
-- asked_by, another that has asked in vain since; asked, when that was. The next turn is left to that one. META stands for
-- a spider.
local sharing = {}
-- Milliseconds for which it is; and for which the state stays, if there is nothing else in it.
local LEFT_FOR, KEPT = 1000, 600000

function sharing.is_left_to_another(state)
  return slots.are_shared and state.asked_by ~= META and state.asked > slots.now() - LEFT_FOR
end

-- There is no turn for this spider now. -> no turns, and from when there may be some
function sharing.ask_for(state, at)
  if slots.are_shared and state.last ~= META then
    local key = SLOT .. state.slot
    redis.call('HSET', key, 'asked', string.format('%.0f', slots.now()), 'asked_by', META)
    local latest = math.max(slots.now(), state.tat, state.blocked)
    redis.call('PEXPIRE', key, string.format('%.0f', KEPT + latest - slots.now()))
  end
  return {}, at
end

-- This spider is given a turn.
function sharing.had(state)
  if not slots.are_shared then return end
  redis.call('HSET', SLOT .. state.slot, 'last', META)
  if state.asked_by == META then redis.call('HDEL', SLOT .. state.slot, 'asked', 'asked_by') end
end

return sharing
