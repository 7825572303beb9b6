-- Times are nanoseconds since 1970 UTC; 0 is "no time". What is packed is JSON that
-- core/store/pack has compressed; the columns beside it are what queries need.

-- The one row is locked by every change of protocols and vectors.
CREATE TABLE library (
  only    INTEGER PRIMARY KEY CHECK (only = 1),
  numbers INTEGER NOT NULL -- the last number given to a chain, change or model
) STRICT;
INSERT INTO library (only, numbers) VALUES (1, 0);

CREATE TABLE chains (
  key        INTEGER PRIMARY KEY,
  space      TEXT NOT NULL,
  id         TEXT NOT NULL,
  title      TEXT NOT NULL,
  revision   INTEGER NOT NULL,
  saved      INTEGER NOT NULL,
  step_count INTEGER NOT NULL,
  model      TEXT NOT NULL,
  changed    INTEGER NOT NULL, -- the number of its last change, or that of its vectors
  outline    BLOB NOT NULL, -- packed: the chain without its revision and the texts of its steps
  UNIQUE (space, id)
) STRICT;
CREATE INDEX chains_changed ON chains (changed);
-- Few protocols have one title, so the index need not have the ids.
CREATE INDEX chains_listed ON chains (space, title);

-- The texts of the steps, apart from the outlines, which lists and searches read.
CREATE TABLE texts (
  chain INTEGER PRIMARY KEY REFERENCES chains (key) ON DELETE CASCADE,
  texts BLOB NOT NULL -- packed: a list, in the order of the steps
) STRICT;

-- The index of passages is made with the first vector, because nothing reads it before.
CREATE TABLE steps (
  chain    INTEGER NOT NULL REFERENCES chains (key) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  uuid     ANY NOT NULL, -- 16 bytes; what is not a UUID in small letters is text
  passage  BLOB,         -- 16 bytes of the SHA-256 of the step's passage, by which vectors are found
  PRIMARY KEY (chain, position),
  UNIQUE (uuid, chain)
) STRICT, WITHOUT ROWID;

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
  outline    BLOB, -- as in chains; NULL: the chain was deleted
  texts      BLOB,
  changed    INTEGER, -- the number of the deletion
  UNIQUE (space, id, revision)
) STRICT;
CREATE INDEX versions_deleted ON versions (changed) WHERE changed IS NOT NULL;

-- Which chain had a step that no chain of the space has any more.
CREATE TABLE former (
  uuid  TEXT NOT NULL,
  space TEXT NOT NULL,
  id    TEXT NOT NULL, -- of the chain
  PRIMARY KEY (uuid, space)
) STRICT, WITHOUT ROWID;

-- How steps did. Kept when the step is removed, because it may come back.
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

-- A model whose vectors change their length gets a new key.
CREATE TABLE vector_models (
  key    INTEGER PRIMARY KEY,
  model  TEXT NOT NULL UNIQUE,
  length INTEGER NOT NULL,
  stored INTEGER NOT NULL -- a number of the library: its vectors were stored then
) STRICT;

-- Vectors of passages that a chain has. Those of keys that are not in
-- vector_models any more, or of another model than the one that is asked for,
-- count as missing.
CREATE TABLE vectors (
  hash   BLOB NOT NULL UNIQUE,
  model  INTEGER NOT NULL, -- of vector_models
  vector BLOB NOT NULL     -- 32-bit floats, little endian
) STRICT;
CREATE INDEX vectors_passage ON vectors (substr(hash, 1, 16));

CREATE TABLE pins (
  digest   TEXT PRIMARY KEY,
  space    TEXT NOT NULL, -- of the chain: lists of runs need it
  document BLOB NOT NULL  -- packed
) STRICT, WITHOUT ROWID;

-- A run is its head, which every save replaces, and its saves, which are its past.
CREATE TABLE runs (
  number     INTEGER PRIMARY KEY,
  id         TEXT NOT NULL UNIQUE,
  revision   INTEGER NOT NULL,
  principal  TEXT NOT NULL,
  chain_id   TEXT NOT NULL,
  title      TEXT NOT NULL,
  connection TEXT NOT NULL,
  pin        TEXT NOT NULL REFERENCES pins (digest),
  state      TEXT NOT NULL,
  live       INTEGER NOT NULL,
  step_index INTEGER NOT NULL,
  step_count INTEGER NOT NULL,
  created    INTEGER NOT NULL,
  updated    INTEGER NOT NULL,
  document   TEXT NOT NULL -- JSON, without the past
) STRICT;
CREATE INDEX runs_listed ON runs (principal, id);
CREATE INDEX runs_ended ON runs (updated) WHERE live = 0;
-- A call without run_id chooses among the live runs of one protocol: the last changed
-- of the principal, and the last begun of the connection. Neither reads the others.
CREATE INDEX runs_open ON runs (principal, chain_id, updated, id) WHERE live = 1;
CREATE INDEX runs_of_connection ON runs (connection, chain_id, id) WHERE live = 1 AND connection <> '';

-- One row for each save. There is no second index to write to.
CREATE TABLE saves (
  id       INTEGER PRIMARY KEY, -- (number of the run << 20) + the revision that the save led to
  replies  TEXT,                -- the keys of the recorded replies, each followed by a newline; NULL: none
  document BLOB NOT NULL        -- packed: events, oldest first, and recorded replies
) STRICT;

-- Runs that are being redacted, for the length of a transaction: their saves may
-- change. Otherwise saves never change, and are removed only with their run.
CREATE TABLE redacting (run TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;
CREATE TRIGGER saves_are_never_deleted BEFORE DELETE ON saves
WHEN EXISTS (SELECT 1 FROM runs WHERE number = old.id >> 20)
BEGIN SELECT raise(ABORT, 'saves are append-only'); END;
CREATE TRIGGER saves_are_never_changed BEFORE UPDATE ON saves
WHEN NOT EXISTS (SELECT 1 FROM redacting JOIN runs ON runs.id = run WHERE number = old.id >> 20) OR new.id <> old.id
BEGIN SELECT raise(ABORT, 'saves are append-only'); END;

-- Runs whose erased values may still be in free pages or in the log, until the
-- file is written anew. The mark is made in the transaction that erases, so a
-- kill between the two steps is noticed by the next process that opens the file.
CREATE TABLE unscrubbed (run TEXT PRIMARY KEY, erased INTEGER NOT NULL) STRICT, WITHOUT ROWID;

-- The spaces that operators made. Personal spaces and that of the built-in protocols need no row.
CREATE TABLE spaces (
  id      TEXT PRIMARY KEY,
  created INTEGER NOT NULL -- milliseconds
) STRICT, WITHOUT ROWID;

-- The MCP sessions that were ended before their ids expire, by the key of the id.
CREATE TABLE ended_sessions (
  key     TEXT PRIMARY KEY,
  expires INTEGER NOT NULL -- milliseconds
) STRICT, WITHOUT ROWID;
CREATE INDEX ended_sessions_by_time ON ended_sessions (expires);

-- Access tokens, by the SHA-256 of their secrets in hex. Times are milliseconds; 0: none.
CREATE TABLE tokens (
  id      TEXT PRIMARY KEY,
  hash    TEXT NOT NULL UNIQUE,
  owner   TEXT NOT NULL,
  name    TEXT NOT NULL,
  spaces  TEXT NOT NULL, -- ids with a blank between them
  may     TEXT NOT NULL, -- verbs with a blank between them; empty: all
  created INTEGER NOT NULL,
  expires INTEGER NOT NULL,
  used    INTEGER NOT NULL,
  revoked INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Logins of people, by the SHA-256 of their secrets in hex. Times are milliseconds; 0: none.
CREATE TABLE logins (
  id        TEXT PRIMARY KEY,
  hash      TEXT NOT NULL UNIQUE,
  principal TEXT NOT NULL,
  name      TEXT NOT NULL,
  "groups"  TEXT NOT NULL, -- with a line feed between them
  created   INTEGER NOT NULL,
  begun     INTEGER NOT NULL, -- 0: it is a link that was not used
  expires   INTEGER NOT NULL,
  used      INTEGER NOT NULL,
  revoked   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- What operators and people accepted that drivers do: a step of a version of a protocol, in
-- one run, or in every run where run is empty.
CREATE TABLE acceptances (
  id       TEXT NOT NULL UNIQUE,
  space    TEXT NOT NULL,
  protocol TEXT NOT NULL,
  run      TEXT NOT NULL,
  step     INTEGER NOT NULL,
  driver   TEXT NOT NULL,
  document TEXT NOT NULL,
  PRIMARY KEY (space, protocol, run, step, driver)
) STRICT, WITHOUT ROWID;
CREATE INDEX acceptances_run ON acceptances (run) WHERE run <> '';

-- What people declined, by who declined it and where, beyond the run in which they did.
CREATE TABLE declines (
  principal TEXT NOT NULL,
  space     TEXT NOT NULL,
  action    TEXT NOT NULL,
  at        INTEGER NOT NULL,
  document  TEXT NOT NULL,
  PRIMARY KEY (principal, space, action)
) STRICT, WITHOUT ROWID;
CREATE INDEX declines_by_space ON declines (space);
CREATE INDEX declines_by_time ON declines (at);

-- Which database this is: an index beside it belongs to one database. filled is
-- the id of the index for which all protocols were marked; '': there never was one.
CREATE TABLE identity (
  only   INTEGER PRIMARY KEY CHECK (only = 1),
  id     TEXT NOT NULL,
  filled TEXT NOT NULL
) STRICT;
INSERT INTO identity (only, id, filled) VALUES (1, lower(hex(randomblob(16))), '');

-- The protocols whose present state the index does not have yet, each once.
-- Revisions are never used twice: a protocol that is marked again gets a higher one.
CREATE TABLE outbox (
  revision INTEGER PRIMARY KEY AUTOINCREMENT,
  space    TEXT NOT NULL,
  chain    TEXT NOT NULL,   -- id
  compared INTEGER NOT NULL -- 1: searches compare what changed; 0: only ratings did
) STRICT;
CREATE INDEX outbox_chain ON outbox (space, chain);
CREATE INDEX outbox_compared ON outbox (revision) WHERE compared = 1;
-- Not UNIQUE and REPLACE: a statement that fires a trigger decides how the trigger
-- treats conflicts.
CREATE TRIGGER outbox_once AFTER INSERT ON outbox
BEGIN
  UPDATE outbox SET compared = 1 WHERE revision = new.revision AND EXISTS (
    SELECT 1 FROM outbox o WHERE o.space = new.space AND o.chain = new.chain AND o.compared = 1);
  DELETE FROM outbox WHERE space = new.space AND chain = new.chain AND revision < new.revision;
END;

-- Triggers, so that no statement which changes a protocol can forget the mark.
CREATE TRIGGER outbox_chain_stored AFTER INSERT ON chains
WHEN (SELECT filled FROM identity) <> ''
BEGIN
  INSERT INTO outbox (space, chain, compared)
  VALUES (new.space, new.id, 1);
END;
CREATE TRIGGER outbox_chain_deleted AFTER DELETE ON chains
WHEN (SELECT filled FROM identity) <> ''
BEGIN
  INSERT INTO outbox (space, chain, compared)
  VALUES (old.space, old.id, 1);
END;
CREATE TRIGGER outbox_vector_stored AFTER INSERT ON vectors
WHEN (SELECT filled FROM identity) <> ''
BEGIN
  INSERT INTO outbox (space, chain, compared)
  SELECT DISTINCT c.space, c.id, 1 FROM steps s CROSS JOIN chains c ON c.key = s.chain WHERE s.passage = substr(new.hash, 1, 16);
END;
CREATE TRIGGER outbox_vector_replaced AFTER UPDATE ON vectors
WHEN (SELECT filled FROM identity) <> ''
BEGIN
  INSERT INTO outbox (space, chain, compared)
  SELECT DISTINCT c.space, c.id, 1 FROM steps s CROSS JOIN chains c ON c.key = s.chain WHERE s.passage = substr(new.hash, 1, 16);
END;
CREATE TRIGGER outbox_rated AFTER INSERT ON ratings
WHEN (SELECT filled FROM identity) <> ''
BEGIN
  INSERT INTO outbox (space, chain, compared)
  SELECT c.space, c.id, 0 FROM steps s CROSS JOIN chains c ON c.key = s.chain WHERE s.uuid = step_key(new.uuid) AND c.space = new.space;
END;
CREATE TRIGGER outbox_rated_again AFTER UPDATE ON ratings
WHEN (SELECT filled FROM identity) <> ''
BEGIN
  INSERT INTO outbox (space, chain, compared)
  SELECT c.space, c.id, 0 FROM steps s CROSS JOIN chains c ON c.key = s.chain WHERE s.uuid = step_key(new.uuid) AND c.space = new.space;
END;
