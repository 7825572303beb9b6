package postgres

import (
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// runRow is a save in the form of its tables.
type runRow struct {
	run      run.Run
	revision int64  // after the save
	document []byte // of runs
	replies  []byte // keys between newlines; nil: none
	save     []byte // document of saves
}

func encodeRun(save runs.Save) (row runRow, err error) {
	r := save.Run
	r.Revision++
	document, err := record.JSON(r)
	if err != nil {
		return row, fmt.Errorf("encode run %s: %w", r.ID, err)
	}
	kept := record.SaveOf(save)
	happened, err := kept.JSON()
	if err != nil {
		return row, fmt.Errorf("encode what happened in run %s: %w", r.ID, err)
	}
	return runRow{run: r, revision: r.Revision, document: []byte(document), replies: between(kept.Keys()), save: happened}, nil
}

// between puts keys between newlines. It returns nil if there are none.
func between(keys []string) []byte {
	if len(keys) == 0 {
		return nil
	}
	return []byte("\n" + strings.Join(keys, "\n") + "\n")
}
