-- Needs: keys, fleet/crawls
-- Read the record of the crawl under way, as its entry in the history.
--
-- ARGV  how the crawl stands
-- Reply {entry, chart}, both in JSON; {} if no crawl is under way
local entry, chart = crawls.compose(argument(), nil, server_time())
if not entry then return {} end
return {cjson.encode(entry), cjson.encode(chart)}
