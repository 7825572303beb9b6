package archive_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/drivers/driverstest"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
)

func TestAllRunsAreListedWithTheStateTheyAreIn(t *testing.T) {
	w := newWorld(t, 0)
	uris := w.mint(driverstest.ThreeSteps)
	states := map[run.ID]run.State{}
	var order []run.ID
	begin := func(state run.State) run.ID {
		id := w.begin(uris[0])
		order = append(order, id)
		states[id] = state
		return id
	}
	overdue := begin(run.Ended)
	w.machine.Pass(25 * time.Hour) // nobody touched it for a day
	w.happen(begin(run.Closed), run.Event{Kind: run.Attested, Outcome: "failure"})
	if _, err := w.Abandon(t.Context(), w.caller, begin(run.Ended), ""); err != nil {
		t.Fatal(err)
	}
	begin(run.Open)
	slices.Reverse(order)
	for i, s := range w.listed(archive.RunsInput{}) {
		if s.ID != order[i] || s.State != states[s.ID] {
			t.Errorf("run %d = %s in state %s, want %s in state %s", i, s.ID, s.State, order[i], states[s.ID])
		}
	}
	if got := w.listed(archive.RunsInput{State: run.Open}); len(got) != 1 || got[0].ID == overdue {
		t.Errorf("open runs = %+v, want the one that can continue", got)
	}
	page, err := w.AllRuns(t.Context(), w.caller, archive.RunsInput{Limit: 3})
	if err != nil || len(page.Runs) != 3 || page.NextCursor == "" {
		t.Fatalf("AllRuns(at most 3) = %+v, %v", page, err)
	}
	if rest := w.listed(archive.RunsInput{Limit: 3, Cursor: page.NextCursor}); len(rest) != 1 || rest[0].ID != order[3] {
		t.Errorf("the next page = %+v, want the run that was begun first", rest)
	}
	w.caller.Principal = "you"
	if got := w.listed(archive.RunsInput{}); len(got) != 0 {
		t.Errorf("another principal sees %+v", got)
	}
}

func TestAnOperatorSeesTheRunsOfEverybody(t *testing.T) {
	w := newWorld(t, 0)
	first := w.begin(w.mint(driverstest.ThreeSteps)[0])
	w.solve(first)
	you := access.Caller{Principal: "you", Space: "user:test:you"}
	w.caller = you
	second := w.begin(w.mint(driverstest.ThreeSteps)[0])
	w.caller = access.Caller{Principal: "boss", Space: "user:test:boss", Operator: true}
	if got := w.listed(archive.RunsInput{}); len(got) != 2 || got[0].Principal != "you" || got[1].Principal != "me" {
		t.Errorf("an operator sees %+v, want both runs with whose they are", got)
	}
	if got := w.listed(archive.RunsInput{Live: true, Limit: 1}); len(got) != 1 || got[0].ID != second {
		t.Errorf("the last live run = %+v, want that of you", got)
	}
	if line := w.timeline(first); line.Run.Principal != "me" || len(line.Moments) == 0 {
		t.Errorf("the timeline = %+v, want the run of me", line)
	}
	if _, err := w.Decisions(t.Context(), w.caller, first); err != nil {
		t.Errorf("Decisions = %v", err)
	}
	if _, err := w.redact(first, 1); err != nil {
		t.Errorf("Redact = %v", err)
	}
	if _, err := w.runs.Open(t.Context(), w.caller, first); fault.CodeOf(err) != fault.Forbidden || !strings.Contains(err.Error(), "is of me, and nobody else continues it") {
		t.Errorf("to continue the run of another = %v, want %s", err, fault.Forbidden)
	}
	if s, err := w.Abandon(t.Context(), w.caller, first, "it stands around"); err != nil || s.State != run.Ended {
		t.Errorf("Abandon = %+v, %v", s, err)
	}
	w.caller = you
	if got := w.listed(archive.RunsInput{}); len(got) != 1 || got[0].ID != second {
		t.Errorf("you see %+v, want your run alone", got)
	}
	for name, call := range map[string]func() error{
		"Timeline": func() error { _, err := w.Timeline(t.Context(), you, first); return err },
		"Account":  func() error { _, err := w.Account(t.Context(), you, first); return err },
		"Redact":   func() error { _, err := w.redact(first, 0); return err },
	} {
		if err := call(); fault.CodeOf(err) != fault.NotFound {
			t.Errorf("%s of the run of another = %v, want %s", name, err, fault.NotFound)
		}
	}
}

func TestASweepEndsWhatIsOverdueAndRemovesWhatEndedLongAgo(t *testing.T) {
	const ttl, keep = 7 * 24 * time.Hour, 30 * 24 * time.Hour
	w := newWorld(t, keep)
	uris := w.mint(driverstest.ThreeSteps)
	advanced := w.begin(uris[0])
	w.solve(advanced)
	waiting := w.begin(uris[0])
	w.asks(waiting, "elicitation")
	untouched := w.begin(uris[0])
	sweep := func(want archive.Swept) {
		t.Helper()
		if got, err := w.Sweep(t.Context()); err != nil || got != want {
			t.Errorf("Sweep = %+v, %v, want %+v", got, err, want)
		}
	}
	states := func(want ...run.State) {
		t.Helper()
		for i, r := range []run.ID{advanced, waiting, untouched} {
			if got := w.state(r); got != want[i] {
				t.Errorf("run %d is %s, want %s", i, got, want[i])
			}
		}
	}
	sweep(archive.Swept{})
	w.machine.Pass(25 * time.Hour)
	sweep(archive.Swept{Expired: 1})
	states(run.Open, run.Asking, run.Ended)
	if ended := w.listed(archive.RunsInput{State: run.Ended}); len(ended) != 1 || ended[0].EndedBy != run.Expired {
		t.Errorf("ended are %+v, want the expired run", ended)
	}
	moments := w.timeline(untouched).Moments
	if last := moments[len(moments)-1]; !strings.Contains(last.Verdict, "never advanced beyond its first step, and nobody continued it for 24 hours") {
		t.Errorf("the timeline ends with %+v, want why the run ended", last)
	}
	w.machine.Pass(ttl)
	sweep(archive.Swept{Expired: 2})
	states(run.Ended, run.Ended, run.Ended)
	w.machine.Pass(keep - time.Hour) // after the first has ended, and before that after the others have
	sweep(archive.Swept{Removed: 1})
	w.machine.Pass(2 * time.Hour)
	sweep(archive.Swept{Removed: 2})
	if left := w.listed(archive.RunsInput{}); len(left) != 0 {
		t.Errorf("left are %+v", left)
	}
}

func TestEndedRunsAreKeptForEverUnlessToldOtherwise(t *testing.T) {
	w := newWorld(t, 0)
	uris := w.mint(driverstest.ThreeSteps)
	id := w.begin(uris[0])
	w.machine.Pass(100 * 365 * 24 * time.Hour)
	for _, want := range []archive.Swept{{Expired: 1}, {}} {
		if got, err := w.Sweep(t.Context()); err != nil || got != want {
			t.Errorf("Sweep = %+v, %v, want %+v", got, err, want)
		}
	}
	w.state(id)
}

func TestServersThatSweepAtOnceEndARunOnce(t *testing.T) {
	w := newWorld(t, 0)
	uris := w.mint(driverstest.ThreeSteps)
	const runs, servers = 10, 3
	for range runs {
		w.begin(uris[0])
	}
	w.machine.Pass(25 * time.Hour)
	var all sync.WaitGroup
	var mu sync.Mutex // guards expired
	expired := 0
	for range servers {
		e := w.another()
		all.Go(func() {
			s, err := e.Sweep(context.Background())
			if err != nil {
				t.Errorf("Sweep = %v", err)
			}
			mu.Lock()
			defer mu.Unlock()
			expired += s.Expired
		})
	}
	all.Wait()
	if expired != runs {
		t.Errorf("%d runs were ended, want each of %d once", expired, runs)
	}
}

func (w *world) listed(in archive.RunsInput) []run.Summary {
	w.t.Helper()
	reply, err := w.AllRuns(w.t.Context(), w.caller, in)
	if err != nil {
		w.t.Fatalf("AllRuns: %v", err)
	}
	return reply.Runs
}
