-- Needs: keys, clearing
-- One step of deleting the requests of cleared slots.
--
-- Reply 1 if there is more to sweep, else 0
return clearing.sweep(1000) and 1 or 0
