-- Runs that are being redacted, for the length of a transaction: their events
-- may change. There is no other way.
CREATE TABLE redacting (run TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
DROP TRIGGER events_are_never_changed;
CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
WHEN NOT EXISTS (SELECT 1 FROM redacting WHERE run = old.run) OR new.run <> old.run OR new.revision <> old.revision
BEGIN SELECT raise(ABORT, 'events are append-only'); END;
