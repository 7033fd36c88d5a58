"""The signals that the scheduler sends, besides those of Scrapy."""

#: A group of requests has finished: see ``docs/groups.md``. Its handlers get ``group`` (str), its name;
#: ``failed`` (int), how many of its requests were set aside; and ``spider``. A handler may be asynchronous.
group_finished = object()
