-- Needs: keys
-- End a conversion, so that workers with the new serializer may join.
--
-- ARGV  to: the serializer
redis.call('DEL', CONVERTING)
if redis.call('HEXISTS', META, 'SCHEDULER_SERIALIZER') == 1 then
  redis.call('HSET', META, 'SCHEDULER_SERIALIZER', argument())
end
return 1
