package storetest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// The killed process writes alone, which it deletes now and then, and the parts,
// which one call saves together. The contents follow from title and revision, so
// that readers can check whether they are complete.
const (
	alone       = "Alone"
	deleteEvery = 7 // revisions of alone
)

var parts = []string{"Part A", "Part B", "Part C"}

// generation is the chain that WriteForEver stores as a revision.
func generation(title string, revision int64) protocol.Chain {
	labels := make([]string, 1+revision%5)
	for i := range labels {
		labels[i] = fmt.Sprintf("Step %d of revision %d", i+1, revision)
	}
	c := NewChain(mine, title, labels...)
	c.Revision = revision
	c.Description = fmt.Sprintf("Revision %d", revision)
	for i := range c.Steps {
		name := fmt.Sprintf("%s/%d/%d", title, revision, i)
		if i == 0 {
			name = title // the first step stays
		}
		c.Steps[i].UUID = uuid.NewSHA1(uuid.NameSpaceURL, []byte(name)).String()
	}
	return c
}

// WriteForEver is the process that KillRounds kills: it continues from the stored
// revisions and writes the new ones to out after each save. It returns only an
// error.
func WriteForEver(ctx context.Context, s Protocols, out io.Writer) error {
	one, err := lastRevision(ctx, s, alone)
	if err != nil {
		return err
	}
	all, err := lastRevision(ctx, s, parts[0])
	if err != nil {
		return err
	}
	for {
		one++
		if err := writeAlone(ctx, s, one); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, one, all); err != nil {
			return err
		}
		all++
		if err := writeParts(ctx, s, all); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(out, one, all); err != nil {
			return err
		}
	}
}

// lastRevision of a title in its history, or 0 if there is none.
func lastRevision(ctx context.Context, s library.ProtocolHistory, title string) (int64, error) {
	versions, err := s.Versions(ctx, []string{mine}, NewChain(mine, title).ID)
	if fault.CodeOf(err) == fault.NotFound {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return versions[0].Revision, nil
}

func writeAlone(ctx context.Context, s Protocols, revision int64) error {
	c := generation(alone, revision)
	if revision%deleteEvery == 0 {
		return s.DeleteChain(ctx, mine, c.ID, revision-1)
	}
	replaces := revision - 1
	if replaces%deleteEvery == 0 {
		replaces = 0
	}
	return saveGeneration(ctx, s, revision, library.Change{Chain: c, Replaces: replaces})
}

func writeParts(ctx context.Context, s Protocols, revision int64) error {
	changes := make([]library.Change, len(parts))
	for i, title := range parts {
		changes[i] = library.Change{Chain: generation(title, revision), Replaces: revision - 1}
	}
	return saveGeneration(ctx, s, revision, changes...)
}

func saveGeneration(ctx context.Context, s Protocols, revision int64, changes ...library.Change) error {
	got, err := s.SaveChains(ctx, changes)
	if err == nil && slices.ContainsFunc(got, func(r int64) bool { return r != revision }) {
		err = fmt.Errorf("saved as revisions %v, want %d", got, revision)
	}
	return err
}

// KillRounds kills a writing process with SIGKILL at random moments. Each time it
// checks that acknowledged saves are stored, that every protocol is complete, as
// it was before or after the save in progress, that a save of several protocols is
// stored completely or not at all, and that changes, steps and history agree. start
// returns a command, not yet started, that opens the store and calls WriteForEver
// with its standard output; open opens the same store in this process.
func KillRounds(t *testing.T, start func(ctx context.Context) *exec.Cmd, open func(t *testing.T) Protocols) {
	rounds := Rounds()
	var acked, before progress
	fillFirst(t, open)
	usual := 100 * time.Millisecond // until the first acknowledgement
	first := rand.IntN(maxAcknowledged)
	for round := range rounds {
		acked, usual = killOne(t, start, acked, usual, (first+round)%maxAcknowledged)
		s := open(t)
		found := wantWholeLibrary(t, s)
		wantMarksOf(t, s, before, found)
		before = found
		mustClose(t, s)
		if !acked.ledTo(found) {
			t.Errorf("round %d: revisions %+v are stored, want the acknowledged %+v, or one save more", round, found, acked)
		}
		acked = found
		if t.Failed() {
			t.Fatalf("stopped after round %d of %d", round+1, rounds)
		}
	}
	if acked.one < int64(rounds) {
		t.Errorf("%d rounds stored only %+v: the process hardly writes", rounds, acked)
	}
	t.Logf("%d kills, revisions %+v", rounds, acked)
}

// progress has the stored revisions of alone and of the parts.
type progress struct{ one, all int64 }

// ledTo reports whether found is a possible state after a process that
// acknowledged p was killed: the same, or one save more.
func (p progress) ledTo(found progress) bool {
	more := found.one - p.one + found.all - p.all
	return found.one >= p.one && found.all >= p.all && more <= 1
}

// maxAcknowledged is one more than the largest number of acknowledgements before a
// kill. All numbers are used in turn, so that the rounds together store enough.
const maxAcknowledged = 6

// killOne starts the process and kills it some time after it has acknowledged this
// many saves; 0: during its start. It returns the last acknowledged state,
// including earlier rounds, and how long the first acknowledgement took.
func killOne(t *testing.T, start func(context.Context) *exec.Cmd, acked progress, usual time.Duration, after int) (progress, time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := start(ctx)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatalf("StdoutPipe = %v", err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatalf("start the process: %v", err)
	}
	kill := func(within time.Duration) {
		time.AfterFunc(rand.N(within), func() { _ = cmd.Process.Kill() })
	}
	if after == 0 {
		kill(usual)
	}
	lines, last := 0, began
	for scanner := bufio.NewScanner(stdout); scanner.Scan(); {
		if _, err := fmt.Sscan(scanner.Text(), &acked.one, &acked.all); err != nil {
			t.Errorf("the process said %q: %v", scanner.Text(), err)
		}
		lines++
		switch took := time.Since(last); lines {
		case 1:
			usual = took
			if after == 1 {
				kill(took)
			}
		case after:
			kill(2 * took) // within this save or the next one
		}
		last = time.Now()
	}
	if err := cmd.Wait(); err == nil || ctx.Err() != nil {
		t.Errorf("the process ended by itself or was never killed: %v", err)
	}
	if lines < after {
		t.Errorf("the process ended after %d saves, want it to be killed after %d", lines, after)
	}
	return acked, usual
}

// wantWholeLibrary checks all possible remains of WriteForEver, and returns the
// revisions.
func wantWholeLibrary(t *testing.T, s Protocols) progress {
	t.Helper()
	found := progress{one: wantWholeHistory(t, s, alone), all: wantWholeHistory(t, s, parts[0])}
	for _, title := range parts[1:] {
		if revision := wantWholeHistory(t, s, title); revision != found.all {
			t.Errorf("%s is at revision %d and %s at %d, want all parts of one save or none", title, revision, parts[0], found.all)
		}
	}
	var want []string
	if found.one%deleteEvery != 0 {
		want = append(want, alone)
	}
	if found.all > 0 {
		want = append(want, parts...)
	}
	if got := listed(t, s, mine, 2); !slices.Equal(want, got) {
		t.Errorf("List = %q, want %q", got, want)
	}
	wantCount(t, s, mine, len(want))
	wantLastChanges(t, s, found)
	return found
}

// wantLastChanges checks that the changes list each title once, at its last revision.
func wantLastChanges(t *testing.T, s Protocols, found progress) {
	t.Helper()
	changes, err := s.Changed(t.Context(), 0, 1000)
	if err != nil {
		t.Fatalf("Changed = %v, want nil", err)
	}
	var want, got []string
	for _, c := range changes {
		got = append(got, changedAs(c))
	}
	if found.one > 0 {
		c := generation(alone, found.one)
		change := library.Changed{Space: mine, ChainID: c.ID, Chain: &c}
		if found.one%deleteEvery == 0 {
			change.Chain = nil
		}
		want = append(want, changedAs(change))
	}
	if found.all > 0 {
		for _, title := range parts {
			c := generation(title, found.all)
			want = append(want, changedAs(library.Changed{Space: mine, Chain: &c}))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(want, got) {
		t.Errorf("Changed = %q, want %q", got, want)
	}
}

// wantWholeHistory checks the versions, the chain and the steps of a title and
// returns its last revision; 0: never stored.
func wantWholeHistory(t *testing.T, s Protocols, title string) int64 {
	t.Helper()
	last, err := lastRevision(t.Context(), s, title)
	if err != nil {
		t.Fatalf("Versions(%s) = %v, want nil", title, err)
	}
	deletes := func(revision int64) bool { return title == alone && revision%deleteEvery == 0 }
	if last == 0 || deletes(last) {
		wantNoChain(t, s, NewChain(mine, title).ID)
	} else {
		wantStored(t, s, generation(title, last))
	}
	if last == 0 {
		return 0
	}
	wantVersions(t, s, title, last, deletes)
	wantSteps(t, s, title, last, deletes)
	return last
}

func wantVersions(t *testing.T, s Protocols, title string, last int64, deletes func(int64) bool) {
	t.Helper()
	id := NewChain(mine, title).ID
	versions, err := s.Versions(t.Context(), []string{mine}, id)
	if err != nil || int64(len(versions)) < min(last, 100) {
		t.Errorf("Versions(%s) = %d, %v, want at least %d", title, len(versions), err, min(last, 100))
	}
	for i, v := range versions {
		want := last - int64(i)
		if v.Revision != want || v.Deleted != deletes(want) {
			t.Errorf("version %d of %s is %+v, want revision %d", i, title, v, want)
			break
		}
		if i > 3 || v.Deleted {
			continue
		}
		wantVersion(t, s, []string{mine}, generation(title, want))
	}
}

// wantSteps checks that the steps lead to their chain, that those of the previous
// version are former ones, and that those of the next one are unknown.
func wantSteps(t *testing.T, s Protocols, title string, last int64, deletes func(int64) bool) {
	t.Helper()
	now := library.Former{Chain: generation(title, last), Deleted: deletes(last)}
	if now.Deleted {
		now.Chain = generation(title, last-1)
		for _, step := range now.Chain.Steps {
			wantFormer(t, s, step.UUID, now)
		}
		return
	}
	for i, step := range now.Chain.Steps {
		got, at, err := s.StepChain(t.Context(), []string{mine}, step.UUID)
		if err != nil || at != i || !cmp.Equal(now.Chain, got) {
			t.Errorf("StepChain(step %d of %s) = %d of revision %d, %v, want %d of %d", i, title, at, got.Revision, err, i, last)
		}
	}
	if last > 1 && !deletes(last-1) {
		for _, step := range generation(title, last-1).Steps[1:] {
			wantFormer(t, s, step.UUID, now)
		}
	}
	for _, step := range generation(title, last+1).Steps[1:] {
		wantNoStep(t, s, step.UUID)
		wantNoFormer(t, s, []string{mine}, step.UUID)
	}
}
