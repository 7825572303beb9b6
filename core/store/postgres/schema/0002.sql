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
