package postgres

import "github.com/kairos-mcp/kairos/core/store/tables"

// The protocols that are marked.
const (
	allChains     = `SELECT space, id, key FROM chains`
	chainsNamed   = `SELECT * FROM unnest($3::text[], $4::text[]) WITH ORDINALITY AS named (space, id, rank)`
	chainsOfHash  = `SELECT c.space, c.id, c.key FROM steps s JOIN chains c ON c.key = s.chain WHERE s.passage = ANY($3::bytea[])`
	chainsOfSteps = `SELECT c.space, c.id, c.key FROM steps s JOIN chains c ON c.key = s.chain WHERE s.space = $3 AND s.uuid = ANY($4::text[])`
)

// mark marks the protocols of a query, which returns spaces, ids and ranks, if there is an index.
// Its arguments begin at $3. Call it last: it excludes other marks until the
// transaction ends.
func mark(tx tables.Transaction, compared bool, query string, args ...any) error {
	there, err := indexed(tx)
	if err != nil || !there {
		return err
	}
	var last int64
	if _, err := tx.Row(`SELECT marks FROM identity WHERE only_row = 1 FOR UPDATE`, nil, &last); err != nil {
		return err
	}
	n, err := tx.Changed(`INSERT INTO outbox AS o (space, chain, revision, compared)
		SELECT space, id, $1 + row_number() OVER (ORDER BY min(rank), space, id), $2 FROM (`+query+`) AS changed (space, id, rank) GROUP BY space, id
		ON CONFLICT (space, chain) DO UPDATE SET revision = excluded.revision, compared = o.compared OR excluded.compared`,
		append([]any{last, compared}, args...)...)
	if err != nil || n == 0 {
		return err
	}
	return tx.Exec(`UPDATE identity SET marks = $1 WHERE only_row = 1`, last+n)
}

// indexed reports whether there is an index. If there is none, no other transaction
// can begin one before this one ends. Transactions that mark lock the row only in
// mark: of two that had shared it, none could.
func indexed(tx tables.Transaction) (bool, error) {
	var filled string
	if _, err := tx.Row(`SELECT filled FROM identity WHERE only_row = 1`, nil, &filled); err != nil || filled != "" {
		return true, err
	}
	_, err := tx.Row(`SELECT filled FROM identity WHERE only_row = 1 FOR SHARE`, nil, &filled)
	return filled != "", err
}
