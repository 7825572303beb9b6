-- What people allow drivers to do for a step of a version of a protocol.
CREATE TABLE grants (
  id TEXT PRIMARY KEY,
  space TEXT NOT NULL,
  protocol TEXT NOT NULL,
  document TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX grants_protocol ON grants (space, protocol);
