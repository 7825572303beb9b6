package sqlite_test

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// benchRun is a run of usual size: some steps solved, one open.
func benchRun(b *testing.B, s *sqlitetest.Store) run.Run {
	b.Helper()
	c := storetest.NewChain("user:bench", "Bench", "One", "Two", "Three", "Four")
	r := storetest.NewRun("bench", c)
	for range 2 {
		r.Nonces = append(r.Nonces, storetest.NewNonce())
		r.Evidence = append(r.Evidence, &run.Evidence{Output: json.RawMessage(`"` + strings.Repeat("x", 1000) + `"`)})
	}
	if err := s.CreateRun(b.Context(), runs.Save{Run: r}, c); err != nil {
		b.Fatalf("CreateRun = %v, want nil", err)
	}
	r.Revision = 1
	return r
}

// each runs one call at a time and reports their median, which a checkpoint
// now and then does not move.
func each(b *testing.B, call func() error) {
	b.Helper()
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		if err := call(); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds()), "p99-ns")
}

func BenchmarkSaveRun(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "kairos.db"))
	defer s.Close()
	r := benchRun(b, s)
	each(b, func() error {
		err := s.SaveRun(b.Context(), runs.Save{
			Run:      r,
			Events:   []run.Event{{Kind: run.Asked, Run: r.ID, Reason: "measured"}, {Kind: run.Answered, Run: r.ID}},
			Recorded: []runs.Recorded{{Key: "nonce:" + r.Step.Nonce, Payload: r.Pin, Reply: json.RawMessage(`{}`)}},
		})
		r.Revision++
		return err
	})
}

func BenchmarkSaveRunParallel(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "kairos.db"))
	defer s.Close()
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		r := benchRun(b, s)
		for pb.Next() {
			if err := s.SaveRun(b.Context(), runs.Save{Run: r, Events: []run.Event{{Kind: run.Asked}}}); err != nil {
				b.Errorf("SaveRun = %v, want nil", err)
				return
			}
			r.Revision++
		}
	})
}

// BenchmarkBareCommit is the floor of SaveRun: one row of the same size
// updated durably by a single connection, with nothing around it.
func BenchmarkBareCommit(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "kairos.db"))
	r := benchRun(b, s)
	if err := s.Close(); err != nil {
		b.Fatalf("Close = %v, want nil", err)
	}
	document, err := json.Marshal(r)
	if err != nil {
		b.Fatal(err)
	}
	db, err := sql.Open("sqlite", filepath.Join(b.TempDir(), "bare.db")+
		"?_journal_mode=WAL&_synchronous=FULL&_txlock=immediate")
	if err != nil {
		b.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	for _, setup := range []string{
		`CREATE TABLE runs (id TEXT PRIMARY KEY, revision INTEGER, document TEXT)`,
		`INSERT INTO runs VALUES ('1', 1, '')`,
	} {
		if _, err := db.Exec(setup); err != nil {
			b.Fatal(err)
		}
	}
	update, err := db.Prepare(`UPDATE runs SET revision = revision + 1, document = ? WHERE id = ?`)
	if err != nil {
		b.Fatal(err)
	}
	each(b, func() error {
		_, err := update.Exec(string(document), "1")
		return err
	})
}

func BenchmarkRun(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "kairos.db"))
	defer s.Close()
	r := benchRun(b, s)
	each(b, func() error {
		_, err := s.Run(b.Context(), r.ID)
		return err
	})
}

func BenchmarkSearch(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "kairos.db"))
	defer s.Close()
	topics := strings.Fields("release incident calendar backup payroll database printer vault network review")
	for i := range 500 {
		title := fmt.Sprintf("%s procedure %d", topics[i%len(topics)], i)
		c := storetest.NewChain("user:bench", title, "Prepare the "+topics[i/3%len(topics)], "Do it", "Report")
		if err := save(s, c); err != nil {
			b.Fatalf("SaveChain = %v, want nil", err)
		}
	}
	each(b, func() error {
		hits, err := s.Search(b.Context(), library.Query{Text: "how do I prepare a database backup", Spaces: []string{"user:bench"}, Limit: 10})
		if err == nil && len(hits) != 10 {
			err = fmt.Errorf("Search = %d hits, want 10", len(hits))
		}
		return err
	})
}

// benchChain is a protocol of usual size: five steps with a challenge each.
func benchChain(i int) protocol.Chain {
	c := storetest.NewChain("user:bench", fmt.Sprintf("Procedure %d", i), "Look", "Ask", "Decide", "Do it", "Report")
	for j := range c.Steps {
		c.Steps[j].Text += strings.Repeat("Another line that says what to mind here.\n", 5)
	}
	return c
}

func BenchmarkSaveChain(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "kairos.db"))
	defer s.Close()
	i := 0
	each(b, func() error {
		i++
		return save(s, benchChain(i))
	})
}

func BenchmarkReplaceChain(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "kairos.db"))
	defer s.Close()
	revision := int64(0)
	each(b, func() error {
		_, err := s.SaveChains(b.Context(), []library.Change{{Chain: benchChain(1), Replaces: revision}})
		revision++
		return err
	})
}

// BenchmarkSaveChains stores a hundred protocols at a time, as an import does.
func BenchmarkSaveChains(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "kairos.db"))
	defer s.Close()
	const batch = 100
	i := 0
	began := time.Now()
	for b.Loop() {
		chains := make([]protocol.Chain, batch)
		for j := range chains {
			chains[j] = benchChain(i)
			i++
		}
		if err := save(s, chains...); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(i)/time.Since(began).Seconds(), "protocols/s")
}

func BenchmarkChain(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "kairos.db"))
	defer s.Close()
	c := benchChain(1)
	if err := save(s, c); err != nil {
		b.Fatal(err)
	}
	each(b, func() error {
		_, err := s.Chain(b.Context(), []string{"user:other", "user:bench"}, c.ID)
		return err
	})
}

func BenchmarkRate(b *testing.B) {
	s := open(b, filepath.Join(b.TempDir(), "kairos.db"))
	defer s.Close()
	c := benchChain(1)
	if err := save(s, c); err != nil {
		b.Fatal(err)
	}
	each(b, func() error {
		return s.Rate(b.Context(), c.Space, []library.Rating{{Step: c.Steps[0].UUID, Outcome: library.OutcomeSuccess, Bonus: 1}})
	})
}
