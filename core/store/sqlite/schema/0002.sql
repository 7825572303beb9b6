-- The document of a chain is without its revision, which is the column's.
ALTER TABLE chains ADD COLUMN revision INTEGER NOT NULL DEFAULT 1;
ALTER TABLE chains ADD COLUMN saved INTEGER NOT NULL DEFAULT 0;
UPDATE chains SET saved = coalesce(unixepoch(document ->> '$.updated_at'), 0) * 1000000000;
CREATE INDEX chains_listed ON chains (space, title, id);

-- What chains were before; what they are is in chains. Deletions are rows too,
-- so that no revision is given twice.
CREATE TABLE versions (
  key        INTEGER PRIMARY KEY,
  space      TEXT NOT NULL,
  id         TEXT NOT NULL,
  revision   INTEGER NOT NULL,
  title      TEXT NOT NULL,
  step_count INTEGER NOT NULL,
  model      TEXT NOT NULL,
  saved      INTEGER NOT NULL,
  document   TEXT, -- NULL: the chain was deleted
  UNIQUE (space, id, revision)
) STRICT;

-- Which chain held a step that none of the space holds any more.
CREATE TABLE former (
  uuid  TEXT NOT NULL,
  space TEXT NOT NULL,
  id    TEXT NOT NULL, -- of the chain
  PRIMARY KEY (uuid, space)
) STRICT, WITHOUT ROWID;

-- SHA-256 of the step's passage, by which vectors are found.
ALTER TABLE steps ADD COLUMN passage BLOB;
CREATE INDEX steps_passage ON steps (passage);

-- A model whose vectors change their length gets a new key.
CREATE TABLE vector_models (
  key    INTEGER PRIMARY KEY AUTOINCREMENT,
  model  TEXT NOT NULL UNIQUE,
  length INTEGER NOT NULL
) STRICT;

-- Vectors of passages that a chain has. Those of keys that are not in
-- vector_models any more, or of another model than the one that is asked for,
-- count as missing.
CREATE TABLE vectors (
  key    INTEGER PRIMARY KEY,
  hash   BLOB NOT NULL UNIQUE,
  model  INTEGER NOT NULL, -- of vector_models
  vector BLOB NOT NULL     -- 32-bit floats, little endian
) STRICT;

-- How steps did. Kept when the step goes, because it may come back.
CREATE TABLE ratings (
  uuid      TEXT NOT NULL,
  space     TEXT NOT NULL,
  score     INTEGER NOT NULL,
  tier      TEXT NOT NULL,
  retrieved INTEGER NOT NULL,
  succeeded INTEGER NOT NULL,
  partly    INTEGER NOT NULL,
  failed    INTEGER NOT NULL,
  bonus     REAL NOT NULL,
  rated     INTEGER NOT NULL,
  rater     TEXT NOT NULL,
  context   TEXT NOT NULL,
  PRIMARY KEY (uuid, space)
) STRICT, WITHOUT ROWID;
