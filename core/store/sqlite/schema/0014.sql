-- What people declined, by who declined it and where. What was declined before is
-- forgotten: it named its actions in another way.
DROP TABLE declines;
CREATE TABLE declines (
  principal TEXT NOT NULL,
  space TEXT NOT NULL,
  action TEXT NOT NULL,
  at INTEGER NOT NULL,
  document TEXT NOT NULL,
  PRIMARY KEY (principal, space, action)
) STRICT, WITHOUT ROWID;
CREATE INDEX declines_by_space ON declines (space);
CREATE INDEX declines_by_time ON declines (at);
