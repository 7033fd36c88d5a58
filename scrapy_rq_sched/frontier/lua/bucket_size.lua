-- Needs: keys
-- bucket_size()  -> how many fingerprints a bucket of a compact filter has
-- What servers keep as a sorted array by default.
local LARGEST = 512
-- A bucket's size varies by chance. So far beyond the mean, in standard deviations, is one in 10^8.
local DEVIATIONS = 5.6

-- How many integers does this server keep as an array? By trial: not every user may ask for its settings.
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
