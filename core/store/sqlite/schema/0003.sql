-- The search index of version 1 knew no German and scanned common words.
DROP TABLE search_fields;
DROP TABLE search;

-- Which analyser (core/search) made what is below; 0: none has yet.
CREATE TABLE search_state (
  only     INTEGER PRIMARY KEY CHECK (only = 1),
  analyser INTEGER NOT NULL,
  indexed  INTEGER NOT NULL -- chains with keys up to this one are indexed; -1: all are
) STRICT;
INSERT INTO search_state (only, analyser, indexed) VALUES (1, 0, 0);

CREATE TABLE search_spaces (
  number INTEGER PRIMARY KEY,
  space  TEXT NOT NULL UNIQUE,
  chains INTEGER NOT NULL,
  last   INTEGER NOT NULL -- number of the document that was added last
) STRICT;

-- A document is a chain as it was indexed. Its id is (number of the space << 32)
-- + its number in the space, which is never used again: a chain that is stored
-- anew is a new document.
CREATE TABLE search_documents (
  id       INTEGER PRIMARY KEY,
  chain    INTEGER NOT NULL UNIQUE, -- chains.key
  document BLOB NOT NULL
) STRICT;

-- The terms of documents with successive ids, and which documents have them.
-- What is in a segment never changes, only which of its documents are gone.
-- Ids are never used twice, so what was read of a segment may be kept.
CREATE TABLE search_segments (
  id        INTEGER PRIMARY KEY AUTOINCREMENT,
  space     INTEGER NOT NULL, -- number
  first     INTEGER NOT NULL, -- number of its first document
  span      INTEGER NOT NULL, -- from there to its last
  documents INTEGER NOT NULL, -- that are left
  gone      BLOB,             -- a bit for each document that is not; NULL: all are left
  directory BLOB NOT NULL,    -- the first term of each block
  UNIQUE (space, first)
) STRICT;
CREATE TABLE search_blocks (
  id    INTEGER PRIMARY KEY, -- (segment << 20) + number of the block
  block BLOB NOT NULL
) STRICT;

-- Every word that ever stood in a chain, to complete and correct queries with.
-- Rows are only added: who has read up to an id has read them all.
CREATE TABLE search_words (
  id   INTEGER PRIMARY KEY,
  word TEXT NOT NULL UNIQUE
) STRICT;

-- The signs of the numbers of vectors: by them the nearest are found in memory.
-- Ids are never used twice, so who has read up to an id has read them all.
CREATE TABLE vector_signs (
  id     INTEGER PRIMARY KEY AUTOINCREMENT,
  vector INTEGER NOT NULL UNIQUE REFERENCES vectors (key) ON DELETE CASCADE,
  model  INTEGER NOT NULL, -- of vector_models
  signs  BLOB NOT NULL
) STRICT;
