-- Needs: keys, clearing
-- A step of deleting what cleared slots have left.
--
-- Reply 1 if there is more to sweep, else 0
return clearing.sweep(1000) and 1 or 0
