-- The protocols that runs are pinned to are packed (core/store/pack), with the
-- space beside them: lists of runs need it. The old column is emptied first, because
-- dropping it writes all rows anew.
ALTER TABLE pins ADD COLUMN space TEXT NOT NULL DEFAULT '';
ALTER TABLE pins ADD COLUMN packed BLOB NOT NULL DEFAULT x'';
UPDATE pins SET space = coalesce(document ->> '$.space', ''), packed = pack_protocol(document), document = '';
ALTER TABLE pins DROP COLUMN document;
ALTER TABLE pins RENAME COLUMN packed TO document;
