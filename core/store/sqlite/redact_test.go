package sqlite_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// secretive stores a run that says the secret in large documents, which are
// replaced again and again, so that copies are left in many places of the file.
func secretive(t *testing.T, path, secret string) run.Run {
	t.Helper()
	said := strings.Repeat(secret+" ", 2000)
	chain := storetest.NewChain("user:test", "Secretive", "One")
	r := storetest.NewRun("somebody", chain)
	s := open(t, path)
	must(t, s.CreateRun(t.Context(), runs.Save{Run: r}, chain))
	for i := range 20 {
		r.Revision++
		r.Outcome = said[:len(said)/(i%4+1)]
		if err := s.SaveRun(t.Context(), runs.Save{
			Run: r, Events: []run.Event{{Kind: run.Refused, Run: r.ID, Reason: said}},
			Recorded: []runs.Recorded{{Key: "nonce:1", Reply: json.RawMessage(`"` + said + `"`)}},
		}); err != nil {
			t.Fatal(err)
		}
		if i == 10 { // the log is folded into the file
			must(t, s.Close())
			s = open(t, path)
		}
	}
	r.Revision++
	r.Outcome = ""
	must(t, s.Close())
	return r
}

func holding(t *testing.T, path, secret string) []string {
	t.Helper()
	files, err := filepath.Glob(path + "*")
	if err != nil || len(files) == 0 {
		t.Fatalf("files of %s = %v, %v, want some", path, files, err)
	}
	var out []string
	for _, file := range files {
		b, err := os.ReadFile(file)
		must(t, err)
		if bytes.Contains(b, []byte(secret)) {
			out = append(out, filepath.Base(file))
		}
	}
	return out
}

func hush(e run.Event) run.Event { return run.Event{Kind: e.Kind, Run: e.Run} }

func erase(t *testing.T, s *sqlitetest.Store, r run.Run) {
	t.Helper()
	must(t, s.EraseRun(t.Context(), runs.Save{Run: r}, hush))
}

func TestErasedValuesAreNotInTheFiles(t *testing.T) {
	const secret = "red-herring-4711"
	path := filepath.Join(t.TempDir(), "kairos.db")
	r := secretive(t, path, secret)
	if len(holding(t, path, secret)) == 0 {
		t.Fatal("the secret is in no file before it is erased; the test looks in the wrong place")
	}
	// These rows are packed: they do not contain the secret as it is.
	var packed []string
	for _, row := range raw(t, path, `SELECT document FROM saves WHERE length(document) > 64`) {
		packed = append(packed, string(row[0].([]byte)))
	}
	if len(packed) == 0 || len(holding(t, path, packed[0])) == 0 {
		t.Fatal("no packed row is in a file before it is erased; the test looks in the wrong place")
	}
	s := open(t, path)
	erase(t, s, r)
	must(t, s.Scrub(t.Context()))
	for _, erased := range append(packed, secret) {
		if files := holding(t, path, erased); len(files) > 0 {
			t.Errorf("%v hold what was erased: %q", files, erased)
		}
	}
	if got, err := s.Run(t.Context(), r.ID); err != nil || got.Revision != r.Revision+1 {
		t.Errorf("Run = revision %d, %v, want %d", got.Revision, err, r.Revision+1)
	}
}

func TestAReaderOfTheLogIsReported(t *testing.T) {
	const secret = "red-herring-4712"
	path := filepath.Join(t.TempDir(), "kairos.db")
	r := secretive(t, path, secret)
	s := open(t, path)
	db := openRaw(t, path)
	tx, err := db.BeginTx(t.Context(), nil)
	must(t, err)
	var n int
	must(t, tx.QueryRowContext(t.Context(), `SELECT count(*) FROM saves`).Scan(&n))
	erase(t, s, r)
	if err := s.Scrub(t.Context()); err == nil || !strings.Contains(err.Error(), "another process is reading") {
		t.Errorf("Scrub while somebody reads = %v, want that said", err)
	}
	must(t, tx.Rollback())
	if err := s.Scrub(t.Context()); err != nil {
		t.Errorf("Scrub afterwards = %v, want nil", err)
	}
	if files := holding(t, path, secret); len(files) > 0 {
		t.Errorf("%v hold what was erased", files)
	}
}

// eraseForEver is the child of the next test: it erases the values of a run
// from its record, says so, and then from the files, again and again.
func eraseForEver(s *sqlitetest.Store, id run.ID) error {
	ctx := context.Background()
	r, err := s.Run(ctx, id)
	if err != nil {
		return err
	}
	r.Outcome = ""
	if err := s.EraseRun(ctx, runs.Save{Run: r}, hush); err != nil {
		return err
	}
	fmt.Println("erased")
	for {
		if err := s.Scrub(ctx); err != nil {
			return err
		}
	}
}

// A process that is killed between the two parts of a redaction leaves a mark,
// and the next one that opens the file finishes the work.
func TestAKilledRedactionIsFinishedByTheNextProcess(t *testing.T) {
	const secret = "red-herring-4714"
	for round := range storetest.Rounds() {
		path := filepath.Join(t.TempDir(), "kairos.db")
		r := secretive(t, path, secret)
		cmd := child(t.Context(), t, "erase", path, string(r.ID))
		out, err := cmd.StdoutPipe()
		must(t, err)
		must(t, cmd.Start())
		if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("the child did not erase: %v", err)
		}
		<-time.After(time.Duration(round%5) * 3 * time.Millisecond) // the rewriting is cut off at another moment in each round
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed

		s := open(t, path)
		for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) { // polling with a deadline
			left, err := s.Unscrubbed(t.Context())
			if err != nil || time.Now().After(deadline) {
				t.Fatalf("round %d: Unscrubbed = %v, %v, want none in the end", round, left, err)
			}
			if len(left) == 0 {
				break
			}
		}
		if files := holding(t, path, secret); len(files) > 0 {
			t.Errorf("round %d: %v hold what was erased", round, files)
		}
		must(t, s.Close())
	}
}
