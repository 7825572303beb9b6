-- A run is its head, which every save replaces, and its saves, which tell its
-- past. What was in runs, events and recorded is moved by the program; the next
-- version drops them.
ALTER TABLE runs RENAME TO runs_whole;
DROP INDEX runs_live;
DROP INDEX runs_listed;
DROP INDEX runs_ended;

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
  document   TEXT NOT NULL -- without the past
) STRICT;
CREATE INDEX runs_live ON runs (principal) WHERE live = 1;
CREATE INDEX runs_listed ON runs (principal, id);
CREATE INDEX runs_ended ON runs (updated) WHERE live = 0;

-- One row for each save. There is no second index to write to: the id is
-- (number of the run << 20) + the revision that the save led to.
CREATE TABLE saves (
  id       INTEGER PRIMARY KEY,
  replies  TEXT,         -- the keys of the recorded replies, each followed by a newline; NULL: none
  document TEXT NOT NULL -- events, oldest first, and recorded replies
) STRICT;

-- Of runs from before nonces named their run.
CREATE TABLE former_nonces (
  nonce TEXT PRIMARY KEY,
  run   TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX former_nonces_run ON former_nonces (run);
