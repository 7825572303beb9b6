package bench_test

import (
	"cmp"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The few that are compared with the many.
const (
	fewRuns      = 1_000
	fewProtocols = 100
)

// storedRuns is how many runs the database has of which there are many.
func storedRuns(b *testing.B) int {
	b.Helper()
	n, err := strconv.Atoi(cmp.Or(os.Getenv("KAIROS_BENCH_STORED_RUNS"), "1000000"))
	if err != nil || n < fewRuns {
		b.Fatalf("KAIROS_BENCH_STORED_RUNS must be a number of at least %d, not %q", fewRuns, os.Getenv("KAIROS_BENCH_STORED_RUNS"))
	}
	return n
}

// BenchmarkWireStored is the kairos_next of one client on three databases in turn: one
// with few runs and few protocols, one with KAIROS_BENCH_STORED_RUNS (1,000,000) runs,
// and one with KAIROS_BENCH_PROTOCOLS (10,000) protocols.
func BenchmarkWireStored(b *testing.B) {
	runs, protocols := storedRuns(b), libraryProtocols(b)
	for b.Loop() {
		few := onStored(b, fewRuns, fewProtocols)
		manyRuns := onStored(b, runs, fewProtocols)
		manyProtocols := onStored(b, fewRuns, protocols)
		all := []*stored{few, manyRuns, manyProtocols}
		for range wireSamples {
			for _, s := range all {
				if s.left == 0 {
					s.begin(b)
				}
				s.took = append(s.took, s.next(b))
			}
		}
		for _, s := range all {
			s.server.stop(b)
		}
		b.ReportMetric(few.took.p50(), "few-p50-ms")
		b.ReportMetric(manyRuns.took.p50(), "many-runs-p50-ms")
		b.ReportMetric(manyProtocols.took.p50(), "many-protocols-p50-ms")
		measured.add(most(fmt.Sprintf("kairos_next beside %d stored runs, p50", runs), manyRuns.took.p50()/few.took.p50(), "x", 1.1).
			over("beside %d: %.2f ms", fewRuns, few.took.p50()))
		measured.add(most(fmt.Sprintf("kairos_next beside %d protocols, p50", protocols), manyProtocols.took.p50()/few.took.p50(), "x", 1.1).
			over("beside %d: %.2f ms", fewProtocols, few.took.p50()))
	}
	b.ReportMetric(0, "ns/op")
}

// stored is an agent on a server with a database of a known size.
type stored struct {
	runner
	server *remote
	took   samples
}

func onStored(b *testing.B, runs, protocols int) *stored {
	b.Helper()
	dir := b.TempDir()
	file := filepath.Join(dir, "kairos.db")
	importLibrary(b, []string{"KAIROS_DB=" + file, "LOG_LEVEL=error"}, filepath.Join(programs(b), "kairos"), writeLibrary(b, protocols), protocols)
	server := serveKairos(b, programs(b), dir)
	a := newAgent(b, server, modernEra, newClient())
	first := runner{agent: a, uri: mintLong(b, a)}
	first.begin(b)
	for first.left > 0 {
		first.next(b)
	}
	server.stop(b)
	copyRun(b, file, runs)
	s := &stored{server: serveKairos(b, programs(b), dir)}
	s.agent = newAgent(b, s.server, modernEra, newClient())
	s.uri = first.uri
	return s
}

// copyRun stores copies of the only run of a database, with all that happened in it, as
// if as many had been played.
func copyRun(b *testing.B, file string, runs int) {
	b.Helper()
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	columns := func(table string, without ...string) string {
		rows, err := db.Query(`SELECT name FROM pragma_table_info(?)`, table)
		if err != nil {
			b.Fatal(err)
		}
		defer rows.Close()
		var names []string
		for rows.Next() {
			var name string
			if err := rows.Scan(&name); err != nil {
				b.Fatal(err)
			}
			if !strings.Contains(" "+strings.Join(without, " ")+" ", " "+name+" ") {
				names = append(names, name)
			}
		}
		return strings.Join(names, ", ")
	}
	heads, saves := columns("runs", "number", "id"), columns("saves", "id")
	const numbers = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) `
	for _, insert := range []string{
		numbers + `INSERT INTO runs (number, id, ` + heads + `) SELECT number + i, id || '-' || i, ` + heads + ` FROM n, runs WHERE number = (SELECT min(number) FROM runs)`,
		numbers + `INSERT INTO saves (id, ` + saves + `) SELECT id + (i << 20), ` + saves + ` FROM n, saves WHERE id < (SELECT (min(number) + 1) << 20 FROM runs)`,
	} {
		if _, err := db.Exec(insert, runs-1); err != nil {
			b.Fatal(err)
		}
	}
}
