package sqlite

import (
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/pack"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// runRow is a save in the form of its tables.
type runRow struct {
	id       run.ID
	revision int64  // after the save
	document string // of runs
	replies  string // keys, each followed by a newline
	save     []byte // document of saves
}

func encodeRun(save runs.Save) (row runRow, err error) {
	r := save.Run
	r.Revision++
	if r.Revision > record.MaxRevision {
		return row, fmt.Errorf("save run %s: it was saved %d times, which is the most that a run can be", r.ID, record.MaxRevision)
	}
	row = runRow{id: r.ID, revision: r.Revision}
	if row.document, err = record.JSON(r); err != nil {
		return row, fmt.Errorf("encode run %s: %w", r.ID, err)
	}
	row.save, row.replies, err = packSave(record.SaveOf(save))
	if err != nil {
		return row, fmt.Errorf("encode what happened in run %s: %w", r.ID, err)
	}
	return row, nil
}

func packSave(s record.Save) (packed []byte, replies string, err error) {
	document, err := s.JSON()
	return pack.Pack(pack.Save, document), lines(s.Keys()), err
}

// lines are the keys of recorded replies, each followed by a newline.
func lines(keys []string) string {
	var all strings.Builder
	for _, key := range keys {
		all.WriteString(key + "\n")
	}
	return all.String()
}

// append stores what happened, after the head of the run.
func (row runRow) append(tx tables.Transaction) error {
	return tx.Exec(`INSERT INTO saves (id, replies, document)
		SELECT (number << 20) + ?2, nullif(?3, ''), ?4 FROM runs WHERE id = ?1`,
		string(row.id), row.revision, row.replies, row.save)
}
