package qdrant_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/qdrant"
	"github.com/kairos-mcp/kairos/core/store/qdrant/qdranttest"
	"github.com/kairos-mcp/kairos/core/store/storetest"
)

// The test binary runs again as a child that mints when this is set.
const (
	childTask       = "KAIROS_TEST_CHILD"
	childAddress    = "KAIROS_TEST_ADDRESS"
	childCollection = "KAIROS_TEST_COLLECTION"
)

const space = "user:test:mine"

// runChild mints for ever, if this process is a child.
func runChild() bool {
	if os.Getenv(childTask) == "" {
		return false
	}
	s, err := qdrant.Open(qdrant.Options{URL: os.Getenv(childAddress), Collection: os.Getenv(childCollection)}, nil)
	if err == nil {
		err = mintForEver(s)
	}
	fmt.Fprintln(os.Stderr, "child:", err)
	os.Exit(1)
	return true
}

// mintForEver replaces a single chain and a pair of chains in turn, and says on
// stdout which numbers were stored.
func mintForEver(s *qdrant.Store) error {
	ctx := context.Background()
	for {
		for _, titles := range [][]string{{"Single"}, {"Left", "Right"}} {
			changes, number, err := successors(ctx, s, titles)
			if err != nil {
				return err
			}
			fmt.Println("saving", titles[0], number)
			switch _, err := s.SaveChains(ctx, changes); fault.CodeOf(err) {
			case "":
				fmt.Println("saved", titles[0], number)
			case fault.Conflict, fault.DuplicateChain:
			default:
				return err
			}
		}
	}
}

// successors are the chains with the titles, numbered one higher than those stored.
func successors(ctx context.Context, s *qdrant.Store, titles []string) ([]library.Change, int, error) {
	var changes []library.Change
	number := 0
	for _, title := range titles {
		id := storetest.NewChain(space, title).ID
		have, err := s.Chain(ctx, []string{space}, id)
		if err != nil && fault.CodeOf(err) != fault.NotFound {
			return nil, 0, err
		}
		number = numberOf(have) + 1
		changes = append(changes, library.Change{Chain: numbered(title, number), Replaces: have.Revision})
	}
	return changes, number, nil
}

// numbered has a step for each of 1 to 7, whose texts all name the number, so
// that a mixture of two chains shows.
func numbered(title string, number int) protocol.Chain {
	labels := make([]string, 1+number%7)
	for i := range labels {
		labels[i] = fmt.Sprintf("word%d step %d", number, i)
	}
	c := storetest.NewChain(space, title, labels...)
	c.Description = fmt.Sprint(number)
	return c
}

func numberOf(c protocol.Chain) int {
	n := 0
	_, _ = fmt.Sscan(c.Description, &n)
	return n
}

// wantWhole checks that a chain is all of one version, in reads and searches,
// and returns its number. The last request of a killed writer may be on its way
// still: what changes between two reads is read again.
func wantWhole(t *testing.T, s *qdrant.Store, title string) int {
	t.Helper()
	for range 10 {
		before := storedChain(t, s, title)
		problems := notWhole(t, s, before)
		if storedChain(t, s, title).Revision != before.Revision {
			continue
		}
		for _, p := range problems {
			t.Errorf("%s: %s", title, p)
		}
		return numberOf(before)
	}
	t.Fatalf("%s changes all the time", title)
	return 0
}

// storedChain is the chain of a title; empty if there is none.
func storedChain(t *testing.T, s *qdrant.Store, title string) protocol.Chain {
	t.Helper()
	c, err := s.Chain(t.Context(), []string{space}, storetest.NewChain(space, title).ID)
	if err != nil && fault.CodeOf(err) != fault.NotFound {
		t.Fatalf("Chain(%s) = %v", title, err)
	}
	return c
}

// notWhole is what is not as it must be where c is stored.
func notWhole(t *testing.T, s *qdrant.Store, c protocol.Chain) (problems []string) {
	t.Helper()
	if c.Revision == 0 {
		return nil
	}
	say := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	n := numberOf(c)
	if len(c.Steps) != 1+n%7 {
		say("%d has %d steps, want %d", n, len(c.Steps), 1+n%7)
	}
	for i, step := range c.Steps {
		if !strings.Contains(step.Label, fmt.Sprintf("word%d ", n)) {
			say("%d has step %q of another version", n, step.Label)
		}
		got, at, err := s.StepChain(t.Context(), []string{space}, step.UUID)
		if err != nil || at != i || got.Revision != c.Revision {
			say("StepChain(step %d) = revision %d, %d, %v, want %d, %d", i, got.Revision, at, err, c.Revision, i)
		}
	}
	hits, err := s.Search(t.Context(), library.Query{Text: fmt.Sprintf("word%d", n), Spaces: []string{space}, Limit: 10})
	if err != nil {
		t.Fatalf("Search = %v", err)
	}
	if !slices.ContainsFunc(hits, func(h library.Hit) bool { return h.Chain.ID == c.ID && h.Chain.Revision == c.Revision }) {
		say("Search(word%d) does not find it, although it is stored", n)
	}
	versions, err := s.Versions(t.Context(), []string{space}, c.ID)
	if err != nil || len(versions) == 0 || versions[0].Revision != c.Revision {
		say("Versions = %v, %v, want revision %d first", versions, err, c.Revision)
		return problems
	}
	if len(versions) > 1 {
		before, err := s.Version(t.Context(), []string{space}, c.ID, versions[1].Revision)
		if err != nil || len(before.Steps) != 1+numberOf(before)%7 {
			say("Version(%d) = %d steps of number %d, %v, want it whole", versions[1].Revision, len(before.Steps), numberOf(before), err)
		}
	}
	return problems
}

type minter struct {
	cmd *exec.Cmd
	out io.ReadCloser
}

func startMinter(t *testing.T, address, name string) minter {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	m := minter{cmd: exec.CommandContext(t.Context(), binary)}
	m.cmd.Env = append(os.Environ(), childTask+"=mint", childAddress+"="+address, childCollection+"="+name)
	m.cmd.Stderr = os.Stderr
	if m.out, err = m.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := m.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return m
}

// saved reads what the minter said until it ends: the last number that was
// stored, and the last that it was about to store, by title.
func (m minter) saved() (stored, begun map[string]int) {
	stored, begun = map[string]int{}, map[string]int{}
	for lines := bufio.NewScanner(m.out); lines.Scan(); {
		var what, title string
		var n int
		if _, err := fmt.Sscan(lines.Text(), &what, &title, &n); err != nil {
			continue
		}
		if what == "saved" {
			stored[title] = n
		} else {
			begun[title] = n
		}
	}
	_ = m.cmd.Wait() // it was killed
	return stored, begun
}

// A process that is killed at any point of a mint leaves the old chain or the
// new one, and of two that are stored together both or none.
func TestAKilledMintLeavesOldOrNew(t *testing.T) {
	rounds := storetest.Rounds()
	address := qdranttest.Start(t)
	name := collection(t, address)
	s := open(t, qdrant.Options{URL: address, Collection: name, SweepAge: time.Nanosecond})
	leaveSome(t, address, name)
	release(t, dialed(t, address), name)
	known := map[string]int{"Single": wantWhole(t, s, "Single"), "Left": wantWhole(t, s, "Left")}
	for round := range rounds {
		m := startMinter(t, address, name)
		first := make([]byte, 1)
		if _, err := io.ReadFull(m.out, first); err != nil { // it has begun
			t.Fatalf("round %d: the minter says nothing: %v", round, err)
		}
		time.Sleep(time.Duration(rand.Int64N(int64(60 * time.Millisecond)))) // a random point of the work
		if err := m.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		stored, begun := m.saved()
		// The reservations of the killed process must not delay the next one.
		// The server does this after what it has received from it, so that
		// nothing changes while it is looked at.
		release(t, dialed(t, address), name)
		for _, title := range []string{"Single", "Left"} {
			n := wantWhole(t, s, title)
			least := max(known[title], stored[title])
			if n < least || n > max(begun[title], least) {
				t.Errorf("round %d: %s %d is stored, want %d to %d", round, title, n, least, begun[title])
			}
			known[title] = n
		}
		if left, right := wantWhole(t, s, "Left"), wantWhole(t, s, "Right"); left != right {
			t.Errorf("round %d: Left %d is stored with Right %d, want both of one save", round, left, right)
		}
		if t.Failed() {
			return
		}
	}
	wantSwept(t, s, dialed(t, address), name)
}

// leaveSome lets a process store several versions of each title before it is killed, so
// that later kills meet some on any machine.
func leaveSome(t *testing.T, address, name string) {
	t.Helper()
	m := startMinter(t, address, name)
	saves := map[string]int{}
	lines := bufio.NewScanner(m.out)
	for len(saves) < 2 || slices.Min(slices.Collect(maps.Values(saves))) < 2 {
		if !lines.Scan() {
			t.Fatalf("the minter ended after the saves %v", saves)
		}
		var what, title string
		if _, err := fmt.Sscan(lines.Text(), &what, &title); err == nil && what == "saved" {
			saves[title]++
		}
	}
	if err := m.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	m.saved() // until it has ended
}

// release lifts reservations as time would.
func release(t *testing.T, c *pb.Client, name string) {
	t.Helper()
	if _, err := c.SetPayload(t.Context(), &pb.SetPayloadPoints{
		CollectionName: name, Wait: pb.PtrOf(true), Payload: map[string]*pb.Value{"lock_until": pb.NewValueInt(0)},
		PointsSelector: pb.NewPointsSelectorFilter(&pb.Filter{MustNot: []*pb.Condition{pb.NewMatchKeyword("kind", "version")}}),
	}); err != nil {
		t.Fatalf("SetPayload = %v", err)
	}
}

// wantSwept checks that nothing is left of saves that ended half-way: no intent
// and no place held, and in the index only what manifests name.
func wantSwept(t *testing.T, s *qdrant.Store, c *pb.Client, name string) {
	t.Helper()
	if err := s.Sweep(t.Context()); err != nil {
		t.Fatalf("Sweep = %v, want nil", err)
	}
	current := map[string]bool{}
	versions := map[string]bool{}
	shown, steps := map[string]string{}, map[string]string{}
	for _, p := range points(t, c, name) {
		v := p.GetPayload()
		for _, step := range v["steps"].GetListValue().GetValues() {
			steps[step.GetStringValue()] = fmt.Sprint(p.GetId().GetUuid(), " ", v["revision"].GetIntegerValue())
		}
		switch kind := v["kind"].GetStringValue(); kind {
		case "manifest", "deleted":
			current[v["token"].GetStringValue()+p.GetId().GetUuid()] = true
		case "version":
			versions[v["chain_key"].GetStringValue()] = true
		case "shown":
		case "step":
			shown[v["memory_uuid"].GetStringValue()] = fmt.Sprint(v["chain_key"].GetStringValue(), " ", v["revision"].GetIntegerValue())
		default:
			t.Errorf("after Sweep a point of kind %q is left", kind)
		}
	}
	if len(current) == 0 || len(versions) == 0 {
		t.Errorf("%d manifests and versions of %d chains are stored, want some", len(current), len(versions))
	}
	if diff := cmp.Diff(steps, shown); diff != "" {
		t.Errorf("after Sweep the points of the steps are not those of the chains (-want +got):\n%s", diff)
	}
	found := 0
	for _, p := range points(t, c, name+"_index") {
		v := p.GetPayload()
		if kind := v["kind"].GetStringValue(); kind != "chain" && kind != "step" {
			continue
		}
		found++
		if !current[v["token"].GetStringValue()+v["chain_key"].GetStringValue()] {
			t.Errorf("after Sweep the index has a %s of a chain that is not stored", v["kind"].GetStringValue())
		}
	}
	if found == 0 {
		t.Error("the index is empty")
	}
}

// points are all the points of a collection.
func points(t *testing.T, c *pb.Client, name string) []*pb.RetrievedPoint {
	t.Helper()
	var all []*pb.RetrievedPoint
	var offset *pb.PointId
	for {
		page, next, err := c.ScrollAndOffset(t.Context(), &pb.ScrollPoints{
			CollectionName: name, Limit: pb.PtrOf(uint32(1000)), Offset: offset, WithPayload: pb.NewWithPayload(true),
		})
		if err != nil {
			t.Fatalf("Scroll(%s) = %v", name, err)
		}
		all = append(all, page...)
		if next == nil {
			return all
		}
		offset = next
	}
}

// A server that is killed and started again in the middle of mints loses none
// that was reported, and mixes none.
func TestMintsSurviveAServerThatIsKilled(t *testing.T) {
	rounds := 10
	if testing.Short() {
		rounds = 2
	}
	server := qdranttest.New(t, qdranttest.Options{})
	s := open(t, qdrant.Options{URL: server.Address(), Timeout: 20 * time.Second})
	ctx, stop := context.WithCancel(t.Context())
	saved := make(chan int, 1<<16)
	done := make(chan error, 1)
	go func() { done <- mintUntil(ctx, s, saved) }()
	last := 0
	next := func() {
		select {
		case n := <-saved:
			last = max(last, n)
		case err := <-done:
			t.Fatalf("a mint failed although the server came back: %v", err)
		}
	}
	for range rounds {
		next()
		time.Sleep(time.Duration(rand.Int64N(int64(30 * time.Millisecond)))) // a random point of a mint
		server.Kill(t)
		server.Restart(t)
		next()
	}
	stop()
	if err := <-done; err != nil {
		t.Errorf("a mint failed although the server came back: %v", err)
	}
	close(saved)
	for n := range saved {
		last = max(last, n)
	}
	for _, title := range []string{"Single", "Left", "Right"} {
		if n := wantWhole(t, s, title); n < last {
			t.Errorf("%s %d is stored, want at least %d, which was reported as stored", title, n, last)
		}
	}
}

// mintUntil replaces the chains until the context ends, and says which numbers
// all of them have reached.
func mintUntil(ctx context.Context, s *qdrant.Store, saved chan<- int) error {
	for {
		number := 0
		for _, titles := range [][]string{{"Single"}, {"Left", "Right"}} {
			changes, n, err := successors(ctx, s, titles)
			if err == nil {
				_, err = s.SaveChains(ctx, changes)
			}
			if err != nil {
				if errors.Is(ctx.Err(), context.Canceled) {
					err = nil // the test has seen enough
				}
				return err
			}
			number = n
		}
		saved <- number
	}
}

// Two processes that mint one title take turns: no save is lost, none is
// reported twice.
func TestTwoProcessesMintOneTitle(t *testing.T) {
	address := qdranttest.Start(t)
	name := collection(t, address)
	a, b := open(t, qdrant.Options{URL: address, Collection: name}), open(t, qdrant.Options{URL: address, Collection: name})
	const each = 20
	type outcome struct {
		saved int
		err   error
	}
	outcomes := make(chan outcome, 2)
	for _, s := range []*qdrant.Store{a, b} {
		go func() {
			saved := 0
			for saved < each {
				changes, _, err := successors(t.Context(), s, []string{"Contended"})
				if err == nil {
					_, err = s.SaveChains(t.Context(), changes)
				}
				switch fault.CodeOf(err) {
				case "":
					saved++
				case fault.Conflict, fault.DuplicateChain:
				default:
					outcomes <- outcome{saved, err}
					return
				}
			}
			outcomes <- outcome{saved, nil}
		}()
	}
	for range 2 {
		if o := <-outcomes; o.err != nil {
			t.Fatalf("a save ended with %v after %d", o.err, o.saved)
		}
	}
	c, err := a.Chain(t.Context(), []string{space}, storetest.NewChain(space, "Contended").ID)
	if err != nil || c.Revision != 2*each || numberOf(c) != 2*each {
		t.Errorf("after %d saves the chain has revision %d and number %d, %v", 2*each, c.Revision, numberOf(c), err)
	}
	wantWhole(t, b, "Contended")
	wantSwept(t, a, dialed(t, address), name)
}
