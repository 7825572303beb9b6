package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
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
		case "save":
			err = saveForEver(s, run.ID(ids[0]))
		case "contest":
			err = contest(s, os.Stdin, os.Stdout)
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
	if err != nil {
		t.Fatalf("find the test binary: %v", err)
	}
	cmd := exec.CommandContext(ctx, binary)
	cmd.Env = append(os.Environ(), childTask+"="+task, childPath+"="+path, childRuns+"="+strings.Join(ids, ","))
	return cmd
}

// count adds one to the sequence number of random runs, again after each
// conflict, until it has got through childSaves times.
func count(s *sqlitetest.Store, ids []string) error {
	ctx := context.Background()
	for done := 0; done < childSaves; {
		r, err := s.Run(ctx, run.ID(ids[rand.IntN(len(ids))]))
		if err != nil {
			return err
		}
		r.Seq++
		err = s.SaveRun(ctx, runs.Save{Run: r, Events: []run.Event{{Kind: run.Asked, Seq: r.Seq}}})
		switch {
		case err == nil:
			done++
		case fault.CodeOf(err) != fault.Conflict:
			return err
		}
	}
	return nil
}

// saveForEver says on stdout which sequence number is stored, each time one is.
func saveForEver(s *sqlitetest.Store, id run.ID) error {
	for {
		r, err := s.Run(context.Background(), id)
		if err != nil {
			return err
		}
		r.Seq++
		if err := s.SaveRun(context.Background(), runs.Save{
			Run: r, Events: []run.Event{{Kind: run.Asked, Seq: r.Seq}},
		}); err != nil {
			return err
		}
		if _, err := fmt.Println(r.Seq); err != nil {
			return err
		}
	}
}

func newRuns(t *testing.T, s *sqlitetest.Store, n int) []string {
	t.Helper()
	c := storetest.NewChain("user:test", "Shared", "One")
	var ids []string
	for range n {
		r := storetest.NewRun("somebody", c)
		if err := s.CreateRun(t.Context(), runs.Save{Run: r}, c); err != nil {
			t.Fatalf("CreateRun = %v, want nil", err)
		}
		ids = append(ids, string(r.ID))
	}
	return ids
}

// wantCounted checks that a run's number, revision and events agree, and
// returns the number.
func wantCounted(t *testing.T, s *sqlitetest.Store, id string) int64 {
	t.Helper()
	r, err := s.Run(t.Context(), run.ID(id))
	if err != nil {
		t.Fatalf("Run = %v, want nil", err)
	}
	events, err := s.Events(t.Context(), r.ID)
	if err != nil {
		t.Fatalf("Events = %v, want nil", err)
	}
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
	path := filepath.Join(t.TempDir(), "kairos.db")
	s := open(t, path)
	defer s.Close()
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
	if want := int64((processes + 1) * childSaves); total != want {
		t.Errorf("all numbers sum up to %d, want %d: every acknowledged save", total, want)
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
	for _, s := range stores {
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	}
}

func TestKilledProcessKeepsWhatItAcknowledged(t *testing.T) {
	rounds := storetest.Rounds()
	path := filepath.Join(t.TempDir(), "kairos.db")
	s := open(t, path)
	id := newRuns(t, s, 1)[0]
	if err := s.Close(); err != nil { // only the children hold the file
		t.Fatalf("Close = %v, want nil", err)
	}
	for round := range rounds {
		acknowledged := killAfter(t, path, id, 1+rand.IntN(8))
		s := open(t, path)
		if stored := wantCounted(t, s, id); stored < acknowledged || stored > acknowledged+1 {
			t.Errorf("round %d: number %d is stored, want the acknowledged %d or the one under way", round, stored, acknowledged)
		}
		if err := s.Close(); err != nil {
			t.Errorf("Close = %v, want nil", err)
		}
	}
}

// killAfter kills a saving child some moment after it has acknowledged n saves
// and returns the last number it acknowledged.
func killAfter(t *testing.T, path, id string, n int) (last int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := child(ctx, t, "save", path, id)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe = %v", err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start child: %v", err)
	}
	var kill *time.Timer
	lines := 0
	for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
		if _, err := fmt.Sscan(scanner.Text(), &last); err != nil {
			t.Errorf("child said %q: %v", scanner.Text(), err)
		}
		if lines++; lines == n {
			kill = time.AfterFunc(time.Duration(rand.IntN(3000))*time.Microsecond, func() { _ = cmd.Process.Kill() })
		}
	}
	if kill == nil {
		t.Error("child ended before it was killed")
	}
	if err := cmd.Wait(); err == nil {
		t.Error("child ended well, want it killed")
	}
	return last
}

func TestKilledProcessLeavesWholeProtocols(t *testing.T) {
	path := filepath.Join(t.TempDir(), "kairos.db")
	storetest.KillRounds(t, func(ctx context.Context) *exec.Cmd {
		cmd := child(ctx, t, "write", path)
		cmd.Stderr = os.Stderr
		return cmd
	}, func(t *testing.T) storetest.Protocols { return open(t, path) })
}

// The titles that processes fight for.
const contested = 25

// contest stores every contested title for the first time and then over
// revision 1, as soon as something comes in, and says what it has won.
func contest(s *sqlitetest.Store, in io.Reader, out io.Writer) error {
	if _, err := s.Count(context.Background(), "user:test"); err != nil {
		return err
	}
	if _, err := in.Read(make([]byte, 1)); err != nil {
		return err
	}
	for i := range int64(2 * contested) {
		title, replaces := fmt.Sprintf("Contested %d", i/2), i%2
		c := storetest.NewChain("user:test", title, fmt.Sprintf("Step of process %d", os.Getpid()))
		_, err := s.SaveChains(context.Background(), []library.Change{{Chain: c, Replaces: replaces}})
		switch code := fault.CodeOf(err); {
		case err == nil:
			if _, err := fmt.Fprintln(out, i/2, replaces, os.Getpid()); err != nil {
				return err
			}
		case replaces == 0 && code != fault.DuplicateChain, replaces == 1 && code != fault.Conflict:
			return err
		}
	}
	return nil
}

func TestOneOfManyProcessesMintsATitle(t *testing.T) {
	const processes = 4
	path := filepath.Join(t.TempDir(), "kairos.db")
	var all sync.WaitGroup
	outputs := make([]strings.Builder, processes)
	start, release, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer start.Close()
	for i := range processes {
		cmd := child(t.Context(), t, "contest", path)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = start, &outputs[i], os.Stderr
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			if err := cmd.Wait(); err != nil {
				t.Errorf("child = %v", err)
			}
		})
	}
	if _, err := release.WriteString(strings.Repeat("x", processes)); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if err := release.Close(); err != nil {
		t.Fatal(err)
	}
	winners := map[[2]int]int{} // process by title and revision replaced
	for i := range outputs {
		for line := range strings.Lines(outputs[i].String()) {
			var title, replaces, pid int
			if _, err := fmt.Sscan(line, &title, &replaces, &pid); err != nil {
				t.Fatalf("child said %q: %v", line, err)
			}
			if other, taken := winners[[2]int{title, replaces}]; taken {
				t.Errorf("processes %d and %d both stored title %d over revision %d", other, pid, title, replaces)
			}
			winners[[2]int{title, replaces}] = pid
		}
	}
	if len(winners) != 2*contested {
		t.Errorf("%d saves were won, want %d", len(winners), 2*contested)
	}
	wantWinners(t, path, winners)
}

// wantWinners checks that what is stored and what was before are the winners'.
func wantWinners(t *testing.T, path string, winners map[[2]int]int) {
	t.Helper()
	s := open(t, path)
	defer s.Close()
	for won, pid := range winners {
		c := storetest.NewChain("user:test", fmt.Sprintf("Contested %d", won[0]))
		got, err := s.Version(t.Context(), []string{"user:test"}, c.ID, int64(won[1]+1))
		if want := fmt.Sprintf("Step of process %d", pid); err != nil || got.Steps[0].Label != want {
			t.Errorf("%s at revision %d = %v, %v, want one with %q", c.Title, won[1]+1, got.Steps, err, want)
		}
		hits, err := s.Search(t.Context(), library.Query{Text: c.Title, Spaces: []string{"user:test"}, Limit: 2 * contested})
		if err != nil || len(hits) == 0 || hits[0].Chain.ID != c.ID || hits[0].Chain.Revision != 2 {
			t.Errorf("Search(%q) = %v, %v, want it first, at revision 2", c.Title, hits, err)
		}
	}
}
