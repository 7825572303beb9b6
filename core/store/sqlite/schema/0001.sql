-- Documents are JSON; the columns beside them are what queries need.
-- Times are nanoseconds since 1970 UTC; 0 is "no time".

CREATE TABLE chains (
  key      INTEGER PRIMARY KEY,
  space    TEXT NOT NULL,
  id       TEXT NOT NULL,
  title    TEXT NOT NULL,
  outline  TEXT NOT NULL, -- the chain without its steps' texts
  document TEXT NOT NULL,
  UNIQUE (space, id)
) STRICT;

CREATE TABLE steps (
  chain    INTEGER NOT NULL REFERENCES chains (key) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  uuid     TEXT NOT NULL,
  PRIMARY KEY (chain, position),
  UNIQUE (uuid, chain)
) STRICT, WITHOUT ROWID;

-- One row for each searchable field: which field of which step matched is
-- what a score is made of.
CREATE TABLE search_fields (
  id    INTEGER PRIMARY KEY,
  chain INTEGER NOT NULL REFERENCES chains (key) ON DELETE CASCADE,
  step  INTEGER NOT NULL,
  field INTEGER NOT NULL
) STRICT;
CREATE INDEX search_fields_chain ON search_fields (chain);
CREATE VIRTUAL TABLE search USING fts5 (
  words, content = '', contentless_delete = 1, tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TABLE pins (
  digest   TEXT PRIMARY KEY,
  document TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
  id         TEXT PRIMARY KEY,
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
  document   TEXT NOT NULL
) STRICT;
CREATE INDEX runs_live ON runs (principal) WHERE live = 1;

CREATE TABLE nonces (
  nonce TEXT PRIMARY KEY,
  run   TEXT NOT NULL REFERENCES runs (id)
) STRICT, WITHOUT ROWID;

-- One row for each save, because a row costs more than what is in it.
CREATE TABLE events (
  run      TEXT NOT NULL REFERENCES runs (id),
  revision INTEGER NOT NULL, -- of the run that the events led to
  document TEXT NOT NULL,    -- a list, oldest first
  PRIMARY KEY (run, revision)
) STRICT, WITHOUT ROWID;
CREATE TRIGGER events_are_never_changed BEFORE UPDATE ON events
BEGIN SELECT raise(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_are_never_deleted BEFORE DELETE ON events
BEGIN SELECT raise(ABORT, 'events are append-only'); END;

CREATE TABLE recorded (
  run     TEXT NOT NULL REFERENCES runs (id),
  key     TEXT NOT NULL,
  payload TEXT NOT NULL,
  reply   TEXT NOT NULL,
  PRIMARY KEY (run, key)
) STRICT, WITHOUT ROWID;
