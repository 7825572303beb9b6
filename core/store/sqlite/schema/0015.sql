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
  SELECT DISTINCT c.space, c.id, 1 FROM steps s JOIN chains c ON c.key = s.chain WHERE s.passage = new.hash;
END;
CREATE TRIGGER outbox_vector_replaced AFTER UPDATE ON vectors
WHEN (SELECT filled FROM identity) <> ''
BEGIN
  INSERT INTO outbox (space, chain, compared)
  SELECT DISTINCT c.space, c.id, 1 FROM steps s JOIN chains c ON c.key = s.chain WHERE s.passage = new.hash;
END;
CREATE TRIGGER outbox_rated AFTER INSERT ON ratings
WHEN (SELECT filled FROM identity) <> ''
BEGIN
  INSERT INTO outbox (space, chain, compared)
  SELECT c.space, c.id, 0 FROM steps s JOIN chains c ON c.key = s.chain WHERE s.uuid = new.uuid AND c.space = new.space;
END;
CREATE TRIGGER outbox_rated_again AFTER UPDATE ON ratings
WHEN (SELECT filled FROM identity) <> ''
BEGIN
  INSERT INTO outbox (space, chain, compared)
  SELECT c.space, c.id, 0 FROM steps s JOIN chains c ON c.key = s.chain WHERE s.uuid = new.uuid AND c.space = new.space;
END;
