-- A call without run_id chooses among the live runs of one protocol: the last changed
-- of the principal, and the last begun of the connection. Neither reads the others.
DROP INDEX runs_live;
CREATE INDEX runs_open ON runs (principal, chain_id, updated, id) WHERE live = 1;
CREATE INDEX runs_of_connection ON runs (connection, chain_id, id) WHERE live = 1 AND connection <> '';
