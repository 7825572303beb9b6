package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/core/store/postgres"
	"github.com/kairos-mcp/kairos/core/store/postgres/postgrestest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// childAddress makes the test binary a child that writes to this database for ever.
const childAddress = "KAIROS_TEST_CHILD_ADDRESS"

func runChild() bool {
	address := os.Getenv(childAddress)
	if address == "" {
		return false
	}
	s, err := postgres.Open(address, nil)
	if err == nil {
		err = storetest.WriteForEver(context.Background(), parts(s), os.Stdout)
	}
	fmt.Fprintln(os.Stderr, "child:", err)
	os.Exit(1)
	return true
}

func TestKilledProcessLeavesWholeProtocols(t *testing.T) {
	address := postgrestest.Start(t).Database(t)
	binary, err := os.Executable()
	must(t, err)
	storetest.KillRounds(t, func(ctx context.Context) *exec.Cmd {
		cmd := exec.CommandContext(ctx, binary)
		cmd.Env = append(os.Environ(), childAddress+"="+address)
		cmd.Stderr = os.Stderr
		return cmd
	}, func(t *testing.T) storetest.Protocols { return open(t, address) })
}

func newRun(t *testing.T, s *store) run.ID {
	t.Helper()
	c := storetest.NewChain("user:test", "Shared", "One")
	r := storetest.NewRun("somebody", c)
	must(t, s.CreateRun(t.Context(), runs.Save{Run: r}, c))
	return r.ID
}

// counter adds one to the sequence number of a run again and again, and knows what
// was acknowledged.
type counter struct {
	store        *store
	id           run.ID
	acknowledged atomic.Int64
}

// await returns when the counter has counted n more.
func (c *counter) await(t *testing.T, n int64) {
	t.Helper()
	want := c.acknowledged.Load() + n
	for end := time.Now().Add(time.Minute); c.acknowledged.Load() < want && !t.Failed(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d were counted within a minute, want %d", c.acknowledged.Load(), want)
		}
	}
}

// count works until stop is closed. A save whose outcome is unknown, or that was not
// stored while the server was away, is settled by reading the run.
func (c *counter) count(t *testing.T, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		r, err := c.store.Run(context.Background(), c.id)
		if err == nil {
			if r.Seq < c.acknowledged.Load() {
				t.Errorf("number %d is stored, and %d was acknowledged", r.Seq, c.acknowledged.Load())
				return
			}
			r.Seq++
			err = c.store.SaveRun(context.Background(), runs.Save{Run: r, Events: []run.Event{{Kind: run.Asked, Seq: r.Seq}}})
		}
		switch {
		case err == nil:
			c.acknowledged.Store(r.Seq)
		case fault.CodeOf(err) != fault.StoreUnavailable:
			t.Errorf("Run or SaveRun = %v, want nil or %s", err, fault.StoreUnavailable)
			return
		}
	}
}

// wantCounted checks that a run's number, revision and events agree.
func wantCounted(t *testing.T, s *store, id run.ID, least int64) {
	t.Helper()
	r, err := s.Run(t.Context(), id)
	must(t, err)
	events, err := s.Events(t.Context(), id)
	must(t, err)
	if r.Seq < least || r.Revision != r.Seq+1 || int64(len(events)) != r.Seq {
		t.Errorf("run has number %d, revision %d, %d events; want one revision and one event each number, at least %d",
			r.Seq, r.Revision, len(events), least)
	}
	for i, e := range events {
		if e.Seq != int64(i)+1 {
			t.Errorf("event %d has number %d, want %d", i, e.Seq, i+1)
		}
	}
}

func TestNothingIsLostWhenTheServerEnds(t *testing.T) {
	server := postgrestest.Start(t)
	if !server.Owned() {
		t.Skip("the server is not the test's to end")
	}
	address := server.Database(t)
	stores := []*store{open(t, address), open(t, address)}
	var counters []*counter
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range 6 {
		c := &counter{store: stores[i%2], id: newRun(t, stores[0])}
		counters = append(counters, c)
		all.Go(func() { c.count(t, stop) })
	}
	rounds := max(4, storetest.Rounds()/5)
	for round := range rounds {
		counters[0].await(t, int64(1+rand.IntN(40)))
		if round%2 == 0 {
			server.Kill()
		} else {
			server.Stop()
		}
		must(t, server.Run())
		counters[0].await(t, 1) // each store finds the new server by itself
	}
	close(stop)
	all.Wait()
	total := int64(0)
	for _, c := range counters {
		total += c.acknowledged.Load()
		for _, s := range stores {
			wantCounted(t, s, c.id, c.acknowledged.Load())
		}
	}
	wantIntact(t, stores[0])
	t.Logf("%d ends of the server, %d saves acknowledged", rounds, total)
}

func wantIntact(t *testing.T, s *store) {
	t.Helper()
	if damages, err := s.Integrity(t.Context()); err != nil || len(damages) > 0 {
		t.Errorf("Integrity = %q, %v, want nothing", damages, err)
	}
}

func closeAll(t *testing.T, stores ...*store) {
	t.Helper()
	for _, s := range stores {
		must(t, s.Close())
	}
}

func TestServersStartTogether(t *testing.T) {
	address := postgrestest.Start(t).Database(t)
	stores := make([]*store, 6)
	var all sync.WaitGroup
	for i := range stores {
		stores[i] = open(t, address)
		all.Go(func() { newRun(t, stores[i]) })
	}
	all.Wait()
	live, _, err := stores[0].AllRuns(t.Context(), archive.Query{Principal: "somebody", Spaces: []string{"user:test"}, Live: true, Limit: 10})
	if err != nil || len(live) != len(stores) {
		t.Errorf("AllRuns = %d runs, %v, want %d", len(live), err, len(stores))
	}
}

func TestTwoServersShareARun(t *testing.T) {
	address := postgrestest.Start(t).Database(t)
	one, other := open(t, address), open(t, address)
	id := newRun(t, one)
	for range 20 {
		r, err := other.Run(t.Context(), id)
		must(t, err)
		results := make([]error, 8)
		var all sync.WaitGroup
		for i := range results {
			all.Go(func() {
				mine := r
				mine.Title = fmt.Sprintf("writer %d", i)
				results[i] = []*store{one, other}[i%2].SaveRun(t.Context(), runs.Save{Run: mine, Events: []run.Event{{Kind: run.Refused, Reason: mine.Title}}})
			})
		}
		all.Wait()
		winner := slices.Index(results, nil)
		for i, err := range results {
			if i != winner && fault.CodeOf(err) != fault.Conflict {
				t.Errorf("SaveRun(loser) = %v, want a conflict", err)
			}
		}
		// The next call on either store sees the save.
		for _, s := range []*store{one, other} {
			look, err := s.RunUnless(t.Context(), run.Run{ID: id, Revision: r.Revision})
			got := look.Run
			if err != nil || !look.Changed || got.Title != fmt.Sprintf("writer %d", winner) || got.Revision != r.Revision+1 {
				t.Fatalf("RunUnless = %q, revision %d, %t, %v, want of writer %d, revision %d", got.Title, got.Revision, look.Changed, err, winner, r.Revision+1)
			}
		}
	}
	wantIntact(t, one)
}

func TestIntegrityFindsAProtocolThatCannotBeRead(t *testing.T) {
	address := withSchema(t)
	s := open(t, address)
	must(t, save(s, storetest.NewChain("user:a", "Zebra crossing", "One"), storetest.NewChain("user:a", "Heron", "One")))
	wantIntact(t, s)
	execute(t, address, `UPDATE chains SET texts = 'x' WHERE title = 'Zebra crossing'`)
	damages, err := s.Integrity(t.Context())
	if err != nil || len(damages) != 1 || !strings.HasPrefix(damages[0], `protocol "Zebra crossing" of user:a cannot be read`) {
		t.Errorf("Integrity = %q, %v, want the one that cannot be read", damages, err)
	}
}

// TestTwoServersWriteOneLibrary mints, replaces and deletes on two servers at once,
// while both read.
func TestTwoServersWriteOneLibrary(t *testing.T) {
	const each = 40
	address := postgrestest.Start(t).Database(t)
	stores := []*store{open(t, address), open(t, address)}
	var all sync.WaitGroup
	for i, s := range stores {
		for _, space := range []string{"user:a", "user:b"} {
			all.Go(func() { mintReplaceDelete(t, s, stores[1-i], space, fmt.Sprintf("heron%d%c", i, space[5]), each) })
		}
	}
	all.Wait()
	wantIntact(t, stores[0])
	for _, s := range stores {
		changes, err := s.Changed(t.Context(), 0, 1000)
		there, deleted := map[string]int{}, 0
		for _, c := range changes {
			if c.Chain == nil {
				deleted++
				continue
			}
			there[c.Space+" "+c.Chain.Slug]++
		}
		const third = (each + 2) / 3
		want := map[string]int{"user:a heron0a": each - third, "user:a heron1a": each - third, "user:b heron0b": each - third, "user:b heron1b": each - third}
		if err != nil || !maps.Equal(there, want) || deleted != 4*third {
			t.Errorf("Changed lists %v and %d deletions, %v, want %v and %d", there, deleted, err, want, 4*third)
		}
	}
}

// mintReplaceDelete changes protocols on one server and looks at once whether the
// other has them.
func mintReplaceDelete(t *testing.T, s, other *store, space, word string, n int) {
	for i := range n {
		c := storetest.NewChain(space, fmt.Sprintf("%s number %d", word, i), "Feed the "+word)
		c.Slug = word
		for replaces := range int64(2) {
			if _, err := s.SaveChains(t.Context(), []library.Change{{Chain: c, Replaces: replaces}}); err != nil {
				t.Errorf("SaveChains = %v, want nil", err)
				return
			}
		}
		stored, err := other.Chain(t.Context(), []string{space}, c.ID)
		if err != nil || stored.Revision != 2 {
			t.Errorf("Chain(%s) on the other server = revision %d, %v, want 2", c.Title, stored.Revision, err)
			return
		}
		if i%3 == 0 {
			if err := s.DeleteChain(t.Context(), space, c.ID, 2); err != nil {
				t.Errorf("DeleteChain = %v, want nil", err)
			}
		}
	}
}

// TestADumpUnderLoadIsWhole makes the backup of the manual while two servers write,
// and opens the restored copy.
func TestADumpUnderLoadIsWhole(t *testing.T) {
	server := postgrestest.Start(t)
	if !server.Owned() {
		t.Skip("needs the programs of the server")
	}
	address, restored := server.Database(t), server.Database(t)
	s := open(t, address)
	stop := make(chan struct{})
	var all sync.WaitGroup
	var counters []*counter
	for range 3 {
		c := &counter{store: s, id: newRun(t, s)}
		counters = append(counters, c)
		all.Go(func() { c.count(t, stop) })
	}
	all.Go(func() { mintReplaceDelete(t, s, s, "user:a", "walrus", 12) })
	acknowledged := make([]int64, len(counters))
	for i, c := range counters {
		acknowledged[i] = c.acknowledged.Load()
	}
	dump := filepath.Join(t.TempDir(), "kairos.dump")
	for _, cmd := range []*exec.Cmd{
		exec.Command(server.Program("pg_dump"), "--format", "custom", "--file", dump, address),
		exec.Command(server.Program("pg_restore"), "--no-owner", "--dbname", restored, dump),
	} {
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s = %v: %s", cmd, err, out)
		}
	}
	close(stop)
	all.Wait()
	copied := open(t, restored)
	wantIntact(t, copied)
	for i, c := range counters {
		wantCounted(t, copied, c.id, acknowledged[i])
	}
	if err := save(copied, storetest.NewChain("user:a", "After the restore", "One")); err != nil {
		t.Errorf("SaveChains = %v, want nil", err)
	}
}
