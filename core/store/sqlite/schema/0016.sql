-- Steps take less space: a UUID is 16 bytes (step_key), half of the hash of a passage
-- says which it is, and the index of passages is made with the first vector, because
-- nothing reads it before.
DROP TRIGGER outbox_vector_stored;
DROP TRIGGER outbox_vector_replaced;
DROP TRIGGER outbox_rated;
DROP TRIGGER outbox_rated_again;
CREATE TABLE steps_small (
  chain    INTEGER NOT NULL REFERENCES chains (key) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  uuid     ANY NOT NULL, -- 16 bytes; what is not a UUID in small letters is text
  passage  BLOB,         -- 16 bytes of the SHA-256 of the step's passage, by which vectors are found
  PRIMARY KEY (chain, position),
  UNIQUE (uuid, chain)
) STRICT, WITHOUT ROWID;
INSERT INTO steps_small (chain, position, uuid, passage)
  SELECT chain, position, step_key(uuid), substr(passage, 1, 16) FROM steps ORDER BY chain, position;
DROP TABLE steps;
ALTER TABLE steps_small RENAME TO steps;

-- Few protocols have one title, so the index need not have the ids.
DROP INDEX chains_listed;
CREATE INDEX chains_listed ON chains (space, title);

CREATE INDEX vectors_passage ON vectors (substr(hash, 1, 16));

-- As in version 15, but for what is shorter.
CREATE TRIGGER outbox_vector_stored AFTER INSERT ON vectors
WHEN (SELECT filled FROM identity) <> ''
BEGIN
  INSERT INTO outbox (space, chain, compared)
  SELECT DISTINCT c.space, c.id, 1 FROM steps s JOIN chains c ON c.key = s.chain WHERE s.passage = substr(new.hash, 1, 16);
END;
CREATE TRIGGER outbox_vector_replaced AFTER UPDATE ON vectors
WHEN (SELECT filled FROM identity) <> ''
BEGIN
  INSERT INTO outbox (space, chain, compared)
  SELECT DISTINCT c.space, c.id, 1 FROM steps s JOIN chains c ON c.key = s.chain WHERE s.passage = substr(new.hash, 1, 16);
END;
CREATE TRIGGER outbox_rated AFTER INSERT ON ratings
WHEN (SELECT filled FROM identity) <> ''
BEGIN
  INSERT INTO outbox (space, chain, compared)
  SELECT c.space, c.id, 0 FROM steps s JOIN chains c ON c.key = s.chain WHERE s.uuid = step_key(new.uuid) AND c.space = new.space;
END;
CREATE TRIGGER outbox_rated_again AFTER UPDATE ON ratings
WHEN (SELECT filled FROM identity) <> ''
BEGIN
  INSERT INTO outbox (space, chain, compared)
  SELECT c.space, c.id, 0 FROM steps s JOIN chains c ON c.key = s.chain WHERE s.uuid = step_key(new.uuid) AND c.space = new.space;
END;
