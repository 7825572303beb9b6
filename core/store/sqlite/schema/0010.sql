DROP TABLE events;
DROP TABLE recorded;
DROP TABLE nonces;
DROP TABLE runs_whole;

-- Saves go with their whole run and in no other way, and change only while their
-- run is redacted.
CREATE TRIGGER saves_are_never_deleted BEFORE DELETE ON saves
WHEN EXISTS (SELECT 1 FROM runs WHERE number = old.id >> 20)
BEGIN SELECT raise(ABORT, 'saves are append-only'); END;
CREATE TRIGGER saves_are_never_changed BEFORE UPDATE ON saves
WHEN NOT EXISTS (SELECT 1 FROM redacting JOIN runs ON runs.id = run WHERE number = old.id >> 20) OR new.id <> old.id
BEGIN SELECT raise(ABORT, 'saves are append-only'); END;
