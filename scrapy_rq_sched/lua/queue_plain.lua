-- A queue class of the user's own: the scripts know its length, which is the last argument, and the
-- worker pushes and pops by itself.
local QUEUE_TYPE = nil

local function queue_length()
  return tonumber(ARGV[#ARGV])
end

local function queue_push(ranks, requests) end

local function queue_take(n)
  return {}, {}
end

local function queue_put_back(entries) end

local function queue_drop(n)
  return {}, {}
end
