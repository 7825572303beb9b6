-- Runs whose erased values may still be in free pages or in the log, until the
-- file is written anew. The mark is made in the transaction that erases, so a
-- kill between the two steps is noticed by the next process that opens the file.
CREATE TABLE unscrubbed (run TEXT PRIMARY KEY, erased INTEGER NOT NULL) STRICT, WITHOUT ROWID;
