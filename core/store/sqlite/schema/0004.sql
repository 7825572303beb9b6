-- Runs are listed whole, and ended ones go after a time.
CREATE INDEX runs_listed ON runs (principal, id);
CREATE INDEX runs_ended ON runs (updated) WHERE live = 0;

-- Events go with their whole run and in no other way.
DROP TRIGGER events_are_never_deleted;
CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
WHEN EXISTS (SELECT 1 FROM runs WHERE id = old.run)
BEGIN SELECT raise(ABORT, 'events are append-only'); END;
-- Without it, removing a run would read every nonce there is.
CREATE INDEX nonces_run ON nonces (run);
