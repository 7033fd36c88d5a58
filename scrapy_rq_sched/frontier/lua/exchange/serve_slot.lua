-- Needs: keys, slots/slots, slots/waiting, store/leases, store/failures, slots/backoff, slots/limits, store/pools, exchange/header, exchange/admission, exchange/make_leases
-- Serve a slot: hand out some of its requests, as far as its limits permit.
local serve_slot = {}
-- The maximum number of waiting requests that an exchange passes over.
local PASSED_OVER = 1000
-- How many requests of slots whose sites cannot be reached an exchange sets aside.
local SET_ASIDE = 500

-- -> whether the worker may be given more
function serve_slot.has_room(step)
  return step.want > 0 and step.passed_over < PASSED_OVER and step.bytes < leases.MAX_BYTES
end

-- Hand out a request that was taken from the queue, or set it back. -> how many were handed out
local function hand(step, slot, score, request, begin)
  local before = #step.leases
  local due, cause = make_leases.admit(step, 'request', score, request, slot, begin)
  if due then
    step.passed_over = step.passed_over + 1
    local name = step.worker .. '/' .. header.exchange .. '.p' .. step.passed_over
    leases.park('request', score, name, request, slot, due, cause)
  end
  return #step.leases > before and 1 or 0
end

-- Take at most *most* requests of a slot. *begins*: when each may begin; nil: at once. Requests that are passed over
-- are set back, so that they do not block the rest. The first chunks are small.
-- -> how many requests no longer wait, and how many of these were handed out
function serve_slot.take(step, slot, most, begins)
  if most == 1 and serve_slot.has_room(step) then
    -- With many slots, most turns are for one request. This case avoids tables, which is faster.
    local score, request = waiting.take_one(slot)
    if not request then return 0, 0 end
    return 1, hand(step, slot, score, request, begins and begins[1])
  end
  local chunk, gone, handed = 1, 0, 0
  while most > 0 and serve_slot.has_room(step) do
    local scores, taken = waiting.take(slot, math.min(most, step.want, chunk))
    if #taken == 0 then break end
    local too_much = {}
    most, gone = most - #taken, gone + #taken
    for i, request in ipairs(taken) do
      if step.bytes >= leases.MAX_BYTES then
        too_much[#too_much + 1] = {scores[i], request, slot}
      else
        handed = handed + hand(step, slot, scores[i], request, begins and begins[handed + 1])
      end
    end
    if #too_much > 0 then waiting.put_back(too_much) end
    gone = gone - #too_much
    chunk = math.min(4 * chunk, PASSED_OVER)
  end
  return gone, handed
end

-- -> how many requests of the slot may be set aside, because its site could not be reached for too long; nil: none. The
-- failed list must not lose entries because of them.
local function to_give_up(state)
  if not (header.gives_up and state and backoff.is_gone(state)) then return nil end
  local room = header.max_failed - redis.call('LLEN', FAILED)
  return room > 0 and room or nil
end

-- Set aside requests of such a slot. -> how many
local function give_up(step, slot, room)
  local scores, taken = waiting.take(slot, math.min(room, SET_ASIDE - step.given_up))
  for i, request in ipairs(taken) do
    step.given_up = step.given_up + 1
    local value = leases.value('request', scores[i], 0, step.second, request, slot)
    local name = header.exchange .. '.g' .. step.given_up
    failures.set_aside(step.worker, {name, value}, backoff.REASON, '', 0, header.max_failed, step.now, true)
  end
  return #taken
end

-- Give a slot its turn. *score_of* returns the next score of a slot that need not wait; by default it comes after all
-- other slots.
-- -> how many of its requests no longer wait; whether it may have another turn in this exchange
function serve_slot.serve(step, slot, each, is_limited, score_of)
  local there, begins, following, state = waiting.length_of(slot), nil, nil, nil
  if there == 0 then waiting.empty = waiting.empty + 1 end
  local most = math.min(there, each)
  if step.has_pools and there > 0 then
    most = pools.room(slot, most)
    -- The last items of its pool were handed out in this exchange.
    if most == 0 then return 0, false end
  end
  if is_limited and there > 0 then begins, following, state = admission.grants(step, slot, most) end
  local room = to_give_up(state)
  if room then
    local gone = give_up(step, slot, room)
    slots.served(slot, there - gone)
    return gone, false
  end
  local gone, handed = serve_slot.take(step, slot, begins and #begins or most, begins)
  if not begins then
    slots.served(slot, there - gone, score_of and score_of(slot))
    return gone, true
  end
  limits.handed(state, step.worker, begins, following, handed)
  local left, time, score = there - gone, begins[handed + 1] or following, nil
  if left > 0 and time == limits.AT_ONCE then
    score = score_of and score_of(slot)
  elseif left > 0 and time then
    -- No place in a lane is left to the worker that had it last.
    score = slots.is_laned(slot) and slots.score(time) or limits.score(state, step.worker, time)
  end
  slots.served(slot, left, score)
  return gone, false
end

return serve_slot
