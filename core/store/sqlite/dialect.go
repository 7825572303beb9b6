package sqlite

import (
	"fmt"

	"github.com/kairos-mcp/kairos/core/store/pack"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// dialect is the SQL of this database. The spaces of runs are those of their pins.
var dialect = &tables.Dialect{
	List:   func(slice any) any { return list(slice) },
	In:     func(n int) string { return fmt.Sprintf(`IN (SELECT value FROM json_each($%d))`, n) },
	Hashes: func(hashes []string) any { return list(hashes) },
	HashIn: `IN (SELECT unhex(value) FROM json_each($2))`,
	Unpack: pack.Unpack,
	JSON:   func(document []byte) any { return string(document) },

	Visible: `(SELECT key AS rank, value AS space FROM json_each($2)) v`,
	Texts:   `(SELECT texts FROM texts WHERE chain = c.key)`,
	IsStep:  `s.uuid = step_key($1)`,
	HasStep: `SELECT 1 FROM steps s CROSS JOIN chains c ON c.key = s.chain WHERE s.uuid = step_key($1) AND c.space = $2`,
	Unembedded: `SELECT s.position, c.outline, t.texts
		FROM (SELECT passage, chain, min(position) AS position FROM steps
			WHERE NOT EXISTS (SELECT 1 FROM vectors v JOIN vector_models m ON m.key = v.model
				WHERE substr(v.hash, 1, 16) = passage AND m.model = $1)
			GROUP BY passage LIMIT $2) s
		JOIN chains c ON c.key = s.chain JOIN texts t ON t.chain = s.chain`,
	Compared: `compared = 1`,
	LastMark: `(SELECT seq FROM sqlite_sequence WHERE name = 'outbox')`,
	MarkAll: func(tx tables.Transaction) error { // other marks are made by triggers
		return tx.Exec(`INSERT INTO outbox (space, chain, compared) SELECT space, id, 1 FROM chains ORDER BY key`)
	},

	RunSpace: `(SELECT space FROM pins WHERE digest = r.pin)`,
	EndedBy:  `CASE WHEN json_valid(document) THEN document ->> '$.ended_by' END`,
	Live:     `live = 1`, Ended: `live = 0 AND updated`,
	ByProtocol: `INDEXED BY runs_open`, ByConnected: `INDEXED BY runs_of_connection`,
	Saves: `FROM runs r JOIN saves s ON s.id > (r.number << 20) + $2 AND s.id <= (r.number << 20) + $3 WHERE r.id = $1`, SaveOrder: `s.id`,
	HasReply: `instr(char(10) || s.replies, CAST($4 AS TEXT)) > 0`,
}
