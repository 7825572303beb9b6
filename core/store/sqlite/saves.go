package sqlite

import (
	"strings"

	"github.com/kairos-mcp/kairos/core/store/pack"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// appendSave stores what happened in a run, after the head of the run.
func appendSave(tx tables.Transaction, row record.RunRow) error {
	return tx.Exec(`INSERT INTO saves (id, replies, document)
		SELECT (number << 20) + ?2, nullif(?3, ''), ?4 FROM runs WHERE id = ?1`,
		string(row.Run.ID), row.Run.Revision, lines(row.Keys), row.Save)
}

// packSave is the form of what happened in runs.
func packSave(document []byte) []byte { return pack.Pack(pack.Save, document) }

// lines are the keys of recorded replies, each followed by a newline.
func lines(keys []string) string {
	var all strings.Builder
	for _, key := range keys {
		all.WriteString(key + "\n")
	}
	return all.String()
}
