package sqlite_test

import (
	"database/sql"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/sqlite"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// TestALateSaveWritesNoMoreThanAnEarlyOne counts the bytes of the log, which do not
// depend on how busy the machine is.
func TestALateSaveWritesNoMoreThanAnEarlyOne(t *testing.T) {
	for _, size := range []int{100, 100 << 10} {
		t.Run(fmt.Sprintf("evidence of %d bytes", size), func(t *testing.T) {
			const saves, tenth = 400, 40
			s, path := fresh(t)
			chain := storetest.NewChain("user:test", "Many steps", "One")
			r := storetest.NewRun("somebody", chain)
			must(t, s.CreateRun(t.Context(), runs.Save{Run: r}, chain))
			keepLog(t, path)
			var first, last int64
			for i := range saves {
				proof, evidence := &run.Proof{Step: i + 1}, &run.Evidence{Output: noise(size)}
				r.Revision++
				r.Proofs, r.Evidence = append(r.Proofs, proof), append(r.Evidence, evidence)
				before := sizeOf(t, path+"-wal")
				must(t, s.SaveRun(t.Context(), runs.Save{Run: r, Events: []run.Event{{Kind: run.Accepted, Run: r.ID, Proof: proof, Evidence: evidence}}}))
				switch wrote := sizeOf(t, path+"-wal") - before; {
				case i < tenth:
					first += wrote
				case i >= saves-tenth:
					last += wrote
				}
			}
			if first == 0 || float64(last) > 1.15*float64(first) {
				t.Errorf("the last %d saves wrote %d bytes, the first %d: want at most 15 %% more", tenth, last, first)
			}
			rows := raw(t, path, `SELECT (SELECT count(*) FROM saves), (SELECT max(length(document)) FROM runs)`)[0]
			if got := rows[0].(int64); got != saves+1 {
				t.Errorf("%d rows after %d saves, want one for each and one for the creation", got, saves)
			}
			if got := rows[1].(int64); got > 2000 {
				t.Errorf("the head of the run has %d bytes, want none of its past in it", got)
			}
		})
	}
}

// keepLog reads until the test ends, so that the log only grows.
func keepLog(t *testing.T, path string) {
	t.Helper()
	db := openRaw(t, path)
	tx, err := db.BeginTx(t.Context(), &sql.TxOptions{ReadOnly: true})
	must(t, err)
	t.Cleanup(func() {
		_ = tx.Rollback()
		db.Close()
	})
	var n int
	must(t, tx.QueryRowContext(t.Context(), `SELECT count(*) FROM saves`).Scan(&n))
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	must(t, err)
	return info.Size()
}

// noise is a JSON string of about that size, which hardly compresses.
func noise(size int) json.RawMessage {
	random := make([]byte, size*3/4)
	for i := range random {
		random[i] = byte(rand.Uint32())
	}
	return json.RawMessage(`"` + base64.StdEncoding.EncodeToString(random) + `"`)
}

// TestAStepIsFoundByItsUUID: a rating, and what marks its protocol for the index, must not
// look through all protocols of its space.
func TestAStepIsFoundByItsUUID(t *testing.T) {
	s, path := fresh(t)
	_, err := s.SaveChains(t.Context(), []library.Change{{Chain: storetest.NewChain("user:test", "Any", "One")}})
	must(t, err)
	queries := []string{sqlite.HasStep}
	for _, row := range raw(t, path, `SELECT substr(sql, instr(sql, 'SELECT c.'), instr(sql, '; END') - instr(sql, 'SELECT c.'))
		FROM (SELECT replace(sql, char(10), ' ') AS sql FROM sqlite_schema WHERE name LIKE 'outbox_rated%')`) {
		queries = append(queries, row[0].(string))
	}
	if len(queries) != 3 {
		t.Fatalf("there are the queries %q, want 3", queries)
	}
	for _, query := range queries {
		query = strings.NewReplacer("$1", "'a'", "$2", "'b'", "new.uuid", "'a'", "new.space", "'b'").Replace(query)
		plan := raw(t, path, `EXPLAIN QUERY PLAN `+query)
		if detail := fmt.Sprint(plan[0][len(plan[0])-1]); !strings.Contains(detail, "uuid=?") {
			t.Errorf("the plan of %s begins with %q, want the UUID", query, detail)
		}
	}
}
