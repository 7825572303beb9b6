-- Chains whose present state the search index does not have: a program that does not
-- know this version of the index stored or removed them.
CREATE TABLE unindexed (
  chain BIGINT PRIMARY KEY -- key, also of a chain that is gone
);
