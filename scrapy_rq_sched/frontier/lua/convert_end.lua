-- Needs: keys
-- End a conversion: workers with the new serializer may join.
--
-- KEYS  as in keys.lua; then the conversion
-- ARGV  to: the serializer
redis.call('DEL', KEYS[15])
if redis.call('HEXISTS', META, 'SCHEDULER_SERIALIZER') == 1 then
  redis.call('HSET', META, 'SCHEDULER_SERIALIZER', argument())
end
return 1
