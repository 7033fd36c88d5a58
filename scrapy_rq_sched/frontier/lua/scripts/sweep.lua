-- Needs: keys, slots/clear_waiting
-- One step of deleting the requests of cleared slots.
--
-- Reply 1 if there is more to sweep, else 0
return clear_waiting.sweep(1000) and 1 or 0
