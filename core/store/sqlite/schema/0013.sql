-- A protocol is stored once and packed (core/store/pack): its outline, which lists
-- and searches read, and the texts of its steps in a table of their own, so that
-- both fill their pages.
CREATE TABLE texts (
  chain INTEGER PRIMARY KEY REFERENCES chains (key) ON DELETE CASCADE,
  texts BLOB NOT NULL -- packed JSON: a list, in the order of the steps
) STRICT;
INSERT INTO texts (chain, texts)
  SELECT key, pack_protocol((SELECT json_group_array(coalesce(value ->> '$.text', '') ORDER BY key) FROM json_each(document, '$.steps')))
  FROM chains ORDER BY key;

ALTER TABLE chains ADD COLUMN step_count INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chains ADD COLUMN model TEXT NOT NULL DEFAULT '';
ALTER TABLE chains ADD COLUMN packed BLOB NOT NULL DEFAULT x'';
UPDATE chains SET step_count = json_array_length(outline, '$.steps'), model = coalesce(outline ->> '$.model_id', ''),
  packed = pack_protocol(outline), outline = '', document = '';
ALTER TABLE chains DROP COLUMN outline;
ALTER TABLE chains DROP COLUMN document;
ALTER TABLE chains RENAME COLUMN packed TO outline;

-- The outlines of versions from before have the texts in them, and no list of texts.
ALTER TABLE versions ADD COLUMN outline BLOB; -- NULL: the chain was deleted
ALTER TABLE versions ADD COLUMN texts BLOB;
UPDATE versions SET outline = pack_protocol(document), texts = pack_protocol('[]'), document = NULL
  WHERE document IS NOT NULL;
ALTER TABLE versions DROP COLUMN document;

UPDATE search_documents SET document = pack_protocol(document);
