-- What people declined, the latest of each action, beyond the run in which they did.
CREATE TABLE declines (
  space TEXT NOT NULL,
  action TEXT NOT NULL,
  at INTEGER NOT NULL,
  document TEXT NOT NULL,
  PRIMARY KEY (space, action)
) STRICT, WITHOUT ROWID;
