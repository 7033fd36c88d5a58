-- Needs: keys
-- bucket_size()  -> the average number of fingerprints in a bucket of a compact filter
-- The largest set of integers that a server keeps as a sorted array by default.
local LARGEST = 512
-- Sizes of buckets vary randomly. Only one bucket in 10^8 is larger than the mean by this many standard deviations.
local DEVIATIONS = 5.6

-- -> the largest set of integers that this server keeps as a sorted array. It tries, because not every user may ask for
-- the server's settings.
local function largest_array()
  local probe = DUPEFILTER .. ':probe'
  for _, size in ipairs({LARGEST, 384, 256, 192, 128, 96, 64, 48, 32, 16}) do
    local members = {}
    for i = 1, size do members[i] = i end
    redis.call('DEL', probe)
    redis.call('SADD', probe, unpack(members))
    local encoding = redis.pcall('OBJECT', 'ENCODING', probe)
    redis.call('DEL', probe)
    if encoding == 'intset' or type(encoding) == 'table' then return size end
  end
  return LARGEST
end

local function bucket_size()
  local root = (math.sqrt(DEVIATIONS ^ 2 + 4 * largest_array()) - DEVIATIONS) / 2
  return math.max(4, math.floor(root ^ 2 / 2))
end

return bucket_size
