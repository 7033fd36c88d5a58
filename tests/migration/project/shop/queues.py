from scrapy_redis.queue import Base


class BareQueue(Base):
    """Has what scrapy-redis asks for, and no more."""

    def __len__(self):
        return self.server.llen(self.key)

    def push(self, request):
        self.server.lpush(self.key, self._encode_request(request))

    def pop(self, timeout=0):
        data = self.server.rpop(self.key)
        return self._decode_request(data) if data else None
