package postgres_test

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// callers is as many saves as are under way at once.
const callers = 32

// parallel makes b.N calls by n callers and reports their median.
func parallel(b *testing.B, n int, call func(caller, i int) error) {
	b.Helper()
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var all sync.WaitGroup
	for caller := range n {
		all.Go(func() {
			for i := 0; ; i++ {
				at := next.Add(1) - 1
				if at >= int64(b.N) {
					return
				}
				start := time.Now()
				if err := call(caller, i); err != nil {
					b.Error(err)
					return
				}
				took[at] = time.Since(start)
			}
		})
	}
	all.Wait()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "saves/s")
}

// saver saves runs of usual size, one for each caller.
func saver(b *testing.B, s runs.Runs) func(caller, i int) error {
	b.Helper()
	c := storetest.NewChain("user:bench", "Bench", "One", "Two", "Three", "Four")
	mine := make([]run.Run, callers)
	for i := range mine {
		mine[i] = storetest.NewRun("bench", c)
		mine[i].Input = json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`)
		if err := s.CreateRun(b.Context(), runs.Save{Run: mine[i]}, c); err != nil {
			b.Fatalf("CreateRun = %v, want nil", err)
		}
		mine[i].Revision = 1
	}
	return func(caller, _ int) error {
		r := &mine[caller]
		err := s.SaveRun(b.Context(), runs.Save{
			Run:      *r,
			Events:   []run.Event{{Kind: run.Asked, Run: r.ID, Reason: strings.Repeat("y", 1000)}, {Kind: run.Answered, Run: r.ID}},
			Recorded: []runs.Recorded{{Key: "nonce:" + r.Step.Nonce, Payload: r.Pin, Reply: json.RawMessage(`{}`)}},
		})
		r.Revision++
		return err
	}
}

// BenchmarkSaveRun compares a save in PostgreSQL, by how pgx sends it, with one in
// SQLite and with the floor: one bare statement of the same size.
func BenchmarkSaveRun(b *testing.B) {
	server := postgrestest.Start(b)
	for _, n := range []int{1, callers} {
		name := map[int]string{1: "alone", callers: "32 callers"}[n]
		b.Run(name+"/floor", func(b *testing.B) { parallel(b, n, floor(b, server.Database(b))) })
		for _, mode := range []string{"cache_describe", "cache_statement", "exec"} {
			b.Run(name+"/"+mode, func(b *testing.B) {
				s := open(b, server.Database(b)+"&default_query_exec_mode="+mode)
				defer func() { _ = s.Close() }()
				save := saver(b, s)
				b.ResetTimer()
				parallel(b, n, save)
			})
		}
		b.Run(name+"/sqlite", func(b *testing.B) {
			s, err := sqlitetest.Open(filepath.Join(b.TempDir(), "kairos.db"), nil)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close() }()
			save := saver(b, s)
			b.ResetTimer()
			parallel(b, n, save)
		})
	}
}

// floor updates one row of 2 KB by a prepared statement.
func floor(b *testing.B, address string) func(caller, i int) error {
	b.Helper()
	if err := postgrestest.Execute(b.Context(), address, `CREATE TABLE floor (id INTEGER PRIMARY KEY, revision BIGINT, document BYTEA) WITH (fillfactor = 70)`,
		`INSERT INTO floor SELECT i, 0, '' FROM generate_series(0, 63) i`); err != nil {
		b.Fatal(err)
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		b.Fatal(err)
	}
	config.MaxConns, config.ConnConfig.DefaultQueryExecMode = 16, pgx.QueryExecModeCacheStatement
	pool, err := pgxpool.NewWithConfig(b.Context(), config)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	document := []byte(strings.Repeat("x", 2000))
	b.ResetTimer()
	return func(caller, i int) error {
		_, err := pool.Exec(b.Context(), `UPDATE floor SET revision = revision + 1, document = $3 WHERE id = $1 AND revision = $2`, caller, i, document)
		return err
	}
}
