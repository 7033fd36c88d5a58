"""Make the objects that settings name: keys, queue, dupefilter, frontier, scheduler."""
