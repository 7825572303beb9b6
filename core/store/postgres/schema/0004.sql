-- A call without run_id chooses among the live runs of one protocol: the last changed
-- of the principal, and the last begun of the connection. Neither reads the others.
CREATE INDEX runs_open ON runs (principal, chain_id, updated, id) WHERE ended IS NULL;
CREATE INDEX runs_of_connection ON runs (connection, chain_id, id) WHERE ended IS NULL AND connection <> '';
-- Programs of earlier versions use the new index instead: it begins with the same column.
DROP INDEX runs_live;
