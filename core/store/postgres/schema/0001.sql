-- Documents are JSON in UTF-8; the columns beside them are what queries need.
-- Times are nanoseconds since 1970 UTC; 0 is "no time". Only types and clauses
-- that other servers of the PostgreSQL protocol have, too: no sequences, no
-- triggers, no extensions.

-- The one row is locked by every change of protocols and vectors.
CREATE TABLE library (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  numbers  BIGINT NOT NULL  -- the last number given to a chain, change or model
);
INSERT INTO library (only_row, numbers) VALUES (1, 0);

CREATE TABLE chains (
  key        BIGINT PRIMARY KEY,
  space      TEXT NOT NULL,
  id         TEXT COLLATE "C" NOT NULL,
  title      TEXT COLLATE "C" NOT NULL,
  outline    BYTEA NOT NULL, -- the chain without its revision and the texts of its steps
  texts      BYTEA NOT NULL, -- of its steps
  revision   BIGINT NOT NULL,
  saved      BIGINT NOT NULL,
  step_count INTEGER NOT NULL,
  model      TEXT NOT NULL,
  changed    BIGINT NOT NULL, -- the number of its last change, or that of its vectors
  UNIQUE (space, id)
);
CREATE INDEX chains_changed ON chains (changed);
CREATE INDEX chains_listed ON chains (space, title, id);

CREATE TABLE steps (
  space    TEXT NOT NULL,
  uuid     TEXT NOT NULL,
  chain    BIGINT NOT NULL,
  position INTEGER NOT NULL,
  passage  BYTEA NOT NULL, -- SHA-256 of the step's passage, by which vectors are found
  PRIMARY KEY (space, uuid)
);
CREATE INDEX steps_chain ON steps (chain);
CREATE INDEX steps_passage ON steps (passage);

-- What chains were before. Deletions are rows, too, so that no revision is given twice.
CREATE TABLE versions (
  space      TEXT NOT NULL,
  id         TEXT NOT NULL,
  revision   BIGINT NOT NULL,
  title      TEXT NOT NULL,
  step_count INTEGER NOT NULL,
  model      TEXT NOT NULL,
  saved      BIGINT NOT NULL,
  outline    BYTEA, -- as in chains; NULL: the chain was deleted
  texts      BYTEA,
  changed    BIGINT, -- the number of the deletion
  PRIMARY KEY (space, id, revision)
);
CREATE INDEX versions_deleted ON versions (changed) WHERE changed IS NOT NULL;

-- Which chain had a step that no chain of the space has any more.
CREATE TABLE former (
  space TEXT NOT NULL,
  uuid  TEXT NOT NULL,
  id    TEXT NOT NULL, -- of the chain
  PRIMARY KEY (space, uuid)
);

-- How steps did. Kept when the step is removed, because it may come back.
CREATE TABLE ratings (
  space     TEXT NOT NULL,
  uuid      TEXT NOT NULL,
  score     BIGINT NOT NULL,
  tier      TEXT NOT NULL,
  retrieved BIGINT NOT NULL,
  succeeded BIGINT NOT NULL,
  partly    BIGINT NOT NULL,
  failed    BIGINT NOT NULL,
  bonus     DOUBLE PRECISION NOT NULL,
  rated     BIGINT NOT NULL,
  rater     TEXT NOT NULL,
  context   TEXT NOT NULL,
  PRIMARY KEY (space, uuid)
);

-- A model whose vectors change their length gets a new key.
CREATE TABLE vector_models (
  key    BIGINT PRIMARY KEY,
  model  TEXT NOT NULL UNIQUE,
  length INTEGER NOT NULL,
  stored BIGINT NOT NULL -- a number of the library: its vectors were stored then
);
-- Vectors of keys that are not in vector_models, or of another model than the one
-- that is asked for, count as missing.
CREATE TABLE vectors (
  hash   BYTEA PRIMARY KEY,
  model  BIGINT NOT NULL, -- of vector_models
  vector BYTEA NOT NULL   -- 32-bit floats, little endian
);

CREATE TABLE pins (
  digest   TEXT PRIMARY KEY,
  document BYTEA NOT NULL
);

-- A run is its head, which every save replaces, and its saves, which are its past.
-- No index has a column that an ordinary save changes.
CREATE TABLE runs (
  id         TEXT COLLATE "C" PRIMARY KEY,
  revision   BIGINT NOT NULL,
  principal  TEXT NOT NULL,
  space      TEXT NOT NULL, -- of the pinned chain
  chain_id   TEXT NOT NULL,
  title      TEXT NOT NULL,
  connection TEXT NOT NULL,
  pin        TEXT NOT NULL, -- pins.digest
  state      TEXT NOT NULL,
  step_index INTEGER NOT NULL,
  step_count INTEGER NOT NULL,
  created    BIGINT NOT NULL,
  updated    BIGINT NOT NULL,
  ended      BIGINT, -- when an ended run was last changed; NULL: the run is live
  document   BYTEA NOT NULL -- without the past
) WITH (fillfactor = 70);
CREATE INDEX runs_listed ON runs (principal, id);
CREATE INDEX runs_ended ON runs (ended) WHERE ended IS NOT NULL;
-- A call without run_id chooses among the live runs of one protocol: the last changed
-- of the principal, and the last begun of the connection. Neither reads the others.
CREATE INDEX runs_open ON runs (principal, chain_id, updated, id) WHERE ended IS NULL;
CREATE INDEX runs_of_connection ON runs (connection, chain_id, id) WHERE ended IS NULL AND connection <> '';

-- One row for each save.
CREATE TABLE saves (
  run      TEXT COLLATE "C" NOT NULL,
  revision BIGINT NOT NULL, -- that the save led to
  replies  BYTEA,           -- the keys of the recorded replies, between newlines; NULL: none
  document BYTEA NOT NULL,  -- events, oldest first, and recorded replies
  PRIMARY KEY (run, revision)
);

-- Runs from which values were erased, until the old versions of the rows are gone.
CREATE TABLE unscrubbed (
  run    TEXT PRIMARY KEY,
  erased BIGINT NOT NULL
);

-- The spaces that operators made. Personal spaces and that of the built-in protocols need no row.
CREATE TABLE spaces (
  id      TEXT COLLATE "C" PRIMARY KEY,
  created BIGINT NOT NULL -- milliseconds
);

-- The MCP sessions that were ended before their ids expire, by the key of the id.
CREATE TABLE ended_sessions (
  key     TEXT COLLATE "C" PRIMARY KEY,
  expires BIGINT NOT NULL -- milliseconds
);
CREATE INDEX ended_sessions_by_time ON ended_sessions (expires);

-- Access tokens, by the SHA-256 of their secrets in hex. Times are milliseconds; 0: none.
CREATE TABLE tokens (
  id      TEXT COLLATE "C" PRIMARY KEY,
  hash    TEXT COLLATE "C" NOT NULL UNIQUE,
  owner   TEXT NOT NULL,
  name    TEXT NOT NULL,
  spaces  TEXT NOT NULL, -- ids with a blank between them
  may     TEXT NOT NULL, -- verbs with a blank between them; empty: all
  created BIGINT NOT NULL,
  expires BIGINT NOT NULL,
  used    BIGINT NOT NULL,
  revoked BIGINT NOT NULL
);

-- Logins of people, by the SHA-256 of their secrets in hex. Times are milliseconds; 0: none.
CREATE TABLE logins (
  id        TEXT COLLATE "C" PRIMARY KEY,
  hash      TEXT COLLATE "C" NOT NULL UNIQUE,
  principal TEXT NOT NULL,
  name      TEXT NOT NULL,
  "groups"  TEXT NOT NULL, -- with a line feed between them
  created   BIGINT NOT NULL,
  begun     BIGINT NOT NULL, -- 0: it is a link that was not used
  expires   BIGINT NOT NULL,
  used      BIGINT NOT NULL,
  revoked   BIGINT NOT NULL
);

-- What operators and people accepted that drivers do: a step of a version of a protocol, in
-- one run, or in every run where run is empty.
CREATE TABLE acceptances (
  id       TEXT COLLATE "C" NOT NULL UNIQUE,
  space    TEXT NOT NULL,
  protocol TEXT NOT NULL,
  run      TEXT NOT NULL,
  step     INTEGER NOT NULL,
  driver   TEXT NOT NULL,
  document BYTEA NOT NULL,
  PRIMARY KEY (space, protocol, run, step, driver)
);
CREATE INDEX acceptances_run ON acceptances (run) WHERE run <> '';

-- What people declined, by who declined it and where, beyond the run in which they did.
CREATE TABLE declines (
  principal TEXT NOT NULL,
  space     TEXT NOT NULL,
  action    TEXT COLLATE "C" NOT NULL,
  at        BIGINT NOT NULL, -- milliseconds
  document  BYTEA NOT NULL,
  PRIMARY KEY (principal, space, action)
);
CREATE INDEX declines_by_space ON declines (space);
CREATE INDEX declines_by_time ON declines (at);

-- Which database this is: an index beside it belongs to one database. filled is the
-- id of the index for which all protocols were marked; '': there never was one.
-- Whoever marks a protocol locks the row until the transaction ends, so marks become
-- visible in their order.
CREATE TABLE identity (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  id       TEXT NOT NULL,
  filled   TEXT NOT NULL,
  marks    BIGINT NOT NULL -- the last revision given to a mark
);
INSERT INTO identity (only_row, id, filled, marks) VALUES (1, replace(gen_random_uuid()::text, '-', ''), '', 0);

-- The protocols whose present state the index does not have yet.
CREATE TABLE outbox (
  space    TEXT NOT NULL,
  chain    TEXT NOT NULL, -- id
  revision BIGINT NOT NULL,
  compared BOOLEAN NOT NULL, -- searches compare what changed; otherwise only ratings did
  PRIMARY KEY (space, chain)
);
CREATE INDEX outbox_revision ON outbox (revision);
CREATE INDEX outbox_compared ON outbox (revision) WHERE compared;

-- The servers that use the database. Times are nanoseconds by the clock of the
-- database, except where a server started.
CREATE TABLE replicas (
  id      TEXT PRIMARY KEY,
  address TEXT NOT NULL,
  version TEXT NOT NULL,
  started BIGINT NOT NULL,
  seen    BIGINT NOT NULL,
  state   BYTEA NOT NULL -- JSON
);

-- Which of them does a background job, and until when at the latest.
CREATE TABLE leases (
  job    TEXT PRIMARY KEY,
  holder TEXT NOT NULL, -- replicas.id
  until  BIGINT NOT NULL
);
