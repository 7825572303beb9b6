-- What happened in runs is packed (core/store/pack).
ALTER TABLE saves RENAME TO saves_plain;
CREATE TABLE saves (
  id       INTEGER PRIMARY KEY, -- (number of the run << 20) + the revision that the save led to
  replies  TEXT,                -- the keys of the recorded replies, each followed by a newline; NULL: none
  document BLOB NOT NULL        -- packed JSON: events, oldest first, and recorded replies
) STRICT;
INSERT INTO saves (id, replies, document) SELECT id, replies, pack_save(document) FROM saves_plain ORDER BY id;
DROP TABLE saves_plain;

CREATE TRIGGER saves_are_never_deleted BEFORE DELETE ON saves
WHEN EXISTS (SELECT 1 FROM runs WHERE number = old.id >> 20)
BEGIN SELECT raise(ABORT, 'saves are append-only'); END;
CREATE TRIGGER saves_are_never_changed BEFORE UPDATE ON saves
WHEN NOT EXISTS (SELECT 1 FROM redacting JOIN runs ON runs.id = run WHERE number = old.id >> 20) OR new.id <> old.id
BEGIN SELECT raise(ABORT, 'saves are append-only'); END;
