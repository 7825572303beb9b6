package sqlite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/sqlite/sqlitetest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// The test binary runs again as a child when these are set.
const (
	childTask = "KAIROS_TEST_CHILD"
	childPath = "KAIROS_TEST_PATH"
	childRuns = "KAIROS_TEST_RUNS"
)

// childSaves is how many saves each counting child gets through.
const childSaves = 40

// runChild does a child's task, if this process is one.
func runChild() bool {
	task := os.Getenv(childTask)
	if task == "" {
		return false
	}
	s, err := sqlitetest.Open(os.Getenv(childPath), nil)
	if err == nil {
		ids := strings.Split(os.Getenv(childRuns), ",")
		switch task {
		case "count":
			err = count(s, ids)
		case "erase":
			err = eraseForEver(s, run.ID(ids[0]))
		case "write":
			err = storetest.WriteForEver(context.Background(), s, os.Stdout)
		}
	}
	if err == nil {
		err = s.Close()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "child:", err)
		os.Exit(1)
	}
	return true
}

func child(ctx context.Context, t testing.TB, task, path string, ids ...string) *exec.Cmd {
	t.Helper()
	binary, err := os.Executable()
	must(t, err)
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env = append(os.Environ(), childTask+"="+task, childPath+"="+path, childRuns+"="+strings.Join(ids, ","))
	return cmd
}

// count adds one to the sequence number of random runs, and a revision to the protocol
// that counted names, again after each conflict, until it has got through childSaves times
// with each.
func count(s *sqlitetest.Store, ids []string) error {
	for runs, protocols := childSaves, childSaves; runs > 0 || protocols > 0; {
		if runs > 0 {
			ok, err := countRun(s, run.ID(ids[rand.IntN(len(ids))]))
			if err != nil {
				return err
			}
			runs -= ok
		}
		if protocols > 0 {
			ok, err := countProtocol(s)
			if err != nil {
				return err
			}
			protocols -= ok
		}
	}
	return nil
}

func countRun(s *sqlitetest.Store, id run.ID) (ok int, err error) {
	r, err := s.Run(context.Background(), id)
	if err != nil {
		return 0, err
	}
	r.Seq++
	return won(s.SaveRun(context.Background(), runs.Save{Run: r, Events: []run.Event{{Kind: run.Asked, Seq: r.Seq}}}), fault.Conflict)
}

// counted is a protocol that all processes replace, each revision with a label of its own.
func counted(revision int64) protocol.Chain {
	return storetest.NewChain("user:test", "Counted", fmt.Sprintf("Revision %d", revision))
}

func countProtocol(s *sqlitetest.Store) (ok int, err error) {
	c, err := s.Chain(context.Background(), []string{"user:test"}, counted(0).ID)
	if err != nil && fault.CodeOf(err) != fault.NotFound {
		return 0, err
	}
	lost := fault.Conflict
	if c.Revision == 0 {
		lost = fault.DuplicateChain
	}
	_, err = s.SaveChains(context.Background(), []library.Change{{Chain: counted(c.Revision + 1), Replaces: c.Revision}})
	return won(err, lost)
}

// won is 1 if a save was the first of several, and 0 if it lost with the code.
func won(err error, lost fault.Code) (int, error) {
	switch {
	case err == nil:
		return 1, nil
	case fault.CodeOf(err) == lost:
		return 0, nil
	}
	return 0, err
}

func newRuns(t *testing.T, s *sqlitetest.Store, n int) []string {
	t.Helper()
	c := storetest.NewChain("user:test", "Shared", "One")
	var ids []string
	for range n {
		r := storetest.NewRun("somebody", c)
		must(t, s.CreateRun(t.Context(), runs.Save{Run: r}, c))
		ids = append(ids, string(r.ID))
	}
	return ids
}

// wantCounted checks that a run's number, revision and events agree, and
// returns the number.
func wantCounted(t *testing.T, s *sqlitetest.Store, id string) int64 {
	t.Helper()
	r, err := s.Run(t.Context(), run.ID(id))
	must(t, err)
	events, err := s.Events(t.Context(), r.ID)
	must(t, err)
	if r.Revision != r.Seq+1 || int64(len(events)) != r.Seq {
		t.Errorf("run has number %d, revision %d, %d events; want one revision and one event each number",
			r.Seq, r.Revision, len(events))
	}
	for i, e := range events {
		if e.Seq != int64(i)+1 {
			t.Errorf("event %d has number %d, want %d", i, e.Seq, i+1)
		}
	}
	return r.Seq
}

func TestProcessesLoseNoChange(t *testing.T) {
	const processes, runs = 4, 3
	s, path := fresh(t)
	ids := newRuns(t, s, runs)
	var all sync.WaitGroup
	for range processes {
		all.Go(func() {
			if out, err := child(t.Context(), t, "count", path, ids...).CombinedOutput(); err != nil {
				t.Errorf("child = %v: %s", err, out)
			}
		})
	}
	// This process writes as well, all the time.
	if err := count(s, ids); err != nil {
		t.Errorf("count = %v, want nil", err)
	}
	all.Wait()
	total := int64(0)
	for _, id := range ids {
		total += wantCounted(t, s, id)
	}
	const want = (processes + 1) * childSaves
	if total != want {
		t.Errorf("all numbers sum up to %d, want %d: every acknowledged save", total, want)
	}
	for revision := int64(want); revision > want-100; revision-- {
		c, err := s.Version(t.Context(), []string{"user:test"}, counted(0).ID, revision)
		if err != nil || c.Steps[0].Label != counted(revision).Steps[0].Label {
			t.Errorf("Version(%d) = %v, %v, want that of the process that saved it", revision, c.Steps, err)
		}
	}
	changes, err := s.Changed(t.Context(), 0, 9)
	if err != nil || len(changes) != 1 || changes[0].Chain.Revision != want {
		t.Errorf("Changed = %v, %v, want revision %d alone", changes, err, want)
	}
}

func TestProcessesCreateTheFileTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "down", "kairos.db")
	stores := make([]*sqlitetest.Store, 6)
	var all sync.WaitGroup
	for i := range stores {
		stores[i] = open(t, path)
		all.Go(func() { newRuns(t, stores[i], 1) })
	}
	all.Wait()
	live, _, err := stores[0].AllRuns(t.Context(), archive.Query{Principal: "somebody", Spaces: []string{"user:test"}, Live: true, Limit: 10})
	if err != nil || len(live) != len(stores) {
		t.Errorf("AllRuns = %d runs, %v, want %d", len(live), err, len(stores))
	}
}

func TestKilledProcessLeavesWholeProtocols(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kairos.db")
	storetest.KillRounds(t, func(ctx context.Context) *exec.Cmd {
		cmd := child(ctx, t, "write", path)
		cmd.Stderr = os.Stderr
		return cmd
	}, func(t *testing.T) storetest.Protocols { return open(t, path) })
}
