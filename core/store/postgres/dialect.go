package postgres

import (
	"fmt"

	"github.com/kairos-mcp/kairos/core/store/tables"
)

// dialect is the SQL of this database.
var dialect = &tables.Dialect{
	List:   func(slice any) any { return slice },
	In:     func(n int) string { return fmt.Sprintf(`= ANY($%d)`, n) },
	Hashes: func(hashes []string) any { return rawHashes(hashes) },
	HashIn: `= ANY($2)`,
	Unpack: func(stored []byte) ([]byte, error) { return stored, nil },
	JSON:   func(document []byte) any { return document },

	Visible: `unnest($2::text[]) WITH ORDINALITY AS v (space, rank)`,
	Texts:   `c.texts`,
	IsStep:  `s.space = v.space AND s.uuid = $1`,
	HasStep: `SELECT 1 FROM steps s WHERE s.space = $2 AND s.uuid = $1`,
	Unembedded: `SELECT one.position, c.outline, c.texts FROM (
			SELECT min(s.chain) AS chain, (array_agg(s.position ORDER BY s.chain, s.position))[1] AS position FROM steps s
			WHERE NOT EXISTS (SELECT 1 FROM vectors v JOIN vector_models m ON m.key = v.model
				WHERE v.hash = s.passage AND m.model = $1)
			GROUP BY s.passage LIMIT $2) one JOIN chains c ON c.key = one.chain`,
	Compared: `compared`,
	LastMark: `(SELECT marks FROM identity)`,
	// One at a time, so that it never waits for a mark that waits for it.
	LockMarks: `SELECT marks FROM identity WHERE only_row = 1 FOR UPDATE`,
	MarkAll:   func(tx tables.Transaction) error { return mark(tx, true, allChains) },

	RunSpace: `r.space`,
	EndedBy:  `convert_from(document, 'UTF8')::json ->> 'ended_by'`,
	Live:     `ended IS NULL`, Ended: `ended`,
	Saves: `FROM saves s WHERE s.run = $1 AND s.revision > $2 AND s.revision <= $3`, SaveOrder: `s.revision`,
	HasReply: `position($4::bytea IN s.replies) > 0`,
}
