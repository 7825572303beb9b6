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

-- Chains are searched under the id (number of the space << 32) + chains.key, so
-- that those of one space are neighbours.
CREATE TABLE search_spaces (
  number INTEGER PRIMARY KEY,
  space  TEXT NOT NULL UNIQUE,
  chains INTEGER NOT NULL
) STRICT;
CREATE VIRTUAL TABLE search USING fts5 (
  terms, content = '', contentless_delete = 1, detail = none, tokenize = "ascii tokenchars '_'"
);
CREATE TABLE search_documents (
  id       INTEGER PRIMARY KEY,
  document BLOB NOT NULL
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
