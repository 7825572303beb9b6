package run_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// recorder is a run with the events that its record holds.
type recorder struct {
	t      *testing.T
	run    run.Run
	events []run.Event
}

func (r *recorder) happens(e run.Event) {
	r.t.Helper()
	e.Run, e.Step, e.At = r.run.ID, r.run.Step.Index, r.run.UpdatedAt.Add(time.Second)
	next, err := run.Apply(r.run, e)
	if err != nil {
		r.t.Fatal(err)
	}
	if run.Records(r.run, next) {
		r.events = append(r.events, e)
	}
	r.run = next
}

func (r *recorder) size() int {
	r.t.Helper()
	head := r.run
	head.Past = run.Past{}
	b, err := json.Marshal(map[string]any{"head": head, "events": r.events})
	if err != nil {
		r.t.Fatal(err)
	}
	return len(b)
}

// observes is a look whose result its driver refuses.
func (r *recorder) observes(reason string) {
	r.t.Helper()
	r.happens(needs(false))
	seen := supplies("till")
	seen.Answer.Value, seen.Answer.Provenance = json.RawMessage(`"`+strings.Repeat("x", 4000)+`"`), driver.ServerObserved
	r.happens(seen)
	r.happens(run.Event{Kind: run.Rejected, Code: "COMMAND_FAILED", Reason: reason})
}

// The record and the run stay small although a caller repeats something thousands of
// times, and both say how often it happened.
func TestWhatIsRepeatedIsCountedAndNotKept(t *testing.T) {
	small := &recorder{t: t, run: newRun("r1", 2)}
	for name, repeat := range map[string]func(r *recorder, i int){
		"failures": func(r *recorder, i int) { r.observes(fmt.Sprint("failure ", i)) },
		"refusals": func(r *recorder, i int) {
			r.happens(run.Event{Kind: run.Refused, Code: "TYPE_MISMATCH", Reason: strings.Repeat("no", 500)})
		},
		"fresh nonces": func(r *recorder, i int) { r.happens(run.Event{Kind: run.Reissued, Nonce: fmt.Sprintf("nonce-%d", i)}) },
		"claims":       func(r *recorder, i int) { r.happens(run.Event{Kind: run.Claimed, Digest: strings.Repeat("d", 64)}) },
		"routes": func(r *recorder, i int) {
			r.happens(run.Event{Kind: run.RouteClosed, Attempt: &run.Attempt{Input: "evidence", Via: "page", Outcome: "unavailable", Reason: strings.Repeat("w", 500)}})
		},
		"declines": func(r *recorder, i int) {
			r.happens(run.Event{Kind: run.Declined, Input: "approval", Via: "agent", Reason: strings.Repeat("n", 500)})
		},
		"questions": func(r *recorder, i int) {
			q := run.Question{Seq: r.run.Seq + 1, Input: evidenceInput(), Via: "elicitation", Human: true}
			if open := r.run.Step.Question; open != nil {
				q.Earlier = append(slices.Clone(open.Earlier), open.Seq)
			}
			r.happens(run.Event{Kind: run.Asked, Question: &q})
		},
		"restarts": func(r *recorder, i int) { r.happens(run.Event{Kind: run.Restarted, Reason: "again"}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := &recorder{t: t, run: small.run}
			if name == "questions" {
				r.happens(needs(false))
			}
			const times = 3000
			for i := range times {
				repeat(r, i)
			}
			if size := r.size(); size > 2<<20 || len(r.run.Nonces) > 300 {
				t.Errorf("the record has %d bytes and %d nonces after %d times", size, len(r.run.Nonces), times)
			}
			tries := r.run.Step.Unsuccessful()
			if tries == nil || tries.LeftOut+len(r.events) < times {
				t.Fatalf("%d events are recorded, and %+v says how many are not", len(r.events), tries)
			}
			if name == "failures" {
				if tries.Failures != times || tries.Discarded != times || tries.Times != times {
					t.Errorf("tries = %+v, want %d of each", tries, times)
				}
				var kept []string
				for _, f := range tries.Observed.All() {
					kept = append(kept, f.Via+": "+f.Reason)
				}
				want := []string{"till: failure 0", "till: failure 1", "till: failure 2", "till: failure 2997", "till: failure 2998", "till: failure 2999"}
				if diff := cmp.Diff(want, kept); diff != "" {
					t.Errorf("the discarded observations that are kept (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// A run whose record leaves events out still tells its past, and its next step is recorded again.
func TestARunThatLeftEventsOutTellsItsPast(t *testing.T) {
	r := &recorder{t: t, run: newRun("r1", 2)}
	r.run.FirstNonce = r.run.Step.Nonce
	for i := range 500 {
		r.happens(run.Event{Kind: run.Reissued, Nonce: fmt.Sprintf("nonce-%d", i)})
	}
	r.happens(needs(false))
	r.happens(supplies("agent"))
	accept := accepts(t, r.run, "second")
	accept.Solves = r.run.Step.Nonce
	r.happens(accept)
	if r.happens(run.Event{Kind: run.Reissued, Nonce: "third"}); r.events[len(r.events)-1].Nonce != "third" {
		t.Error("an event of the next step is not recorded")
	}
	head := r.run
	head.Past = run.Past{}
	recalled := head.Recall(run.Run{}, r.events)
	recalled.Held = r.run.Held // which is of the process
	if diff := cmp.Diff(r.run, recalled); diff != "" {
		t.Errorf("Recall (-want +got):\n%s", diff)
	}
	if got := r.run.SolvedBy; len(got) != 1 || got[0] != "nonce-499" {
		t.Errorf("the step was solved by %q, want the last nonce", got)
	}
}

// A look that brings nothing back counts as one that is discarded.
func TestALookThatFailedIsCounted(t *testing.T) {
	r := &recorder{t: t, run: newRun("r1", 1)}
	r.happens(needs(false))
	r.happens(run.Event{Kind: run.Planned, Input: "evidence", Via: "till", Digest: "d", Plan: &run.Plan{Driver: "till", Effect: driver.EffectReads}})
	failed := run.Attempt{Input: "evidence", Via: "till", Outcome: "unavailable", Reason: "no answer"}
	r.happens(run.Event{Kind: run.RouteClosed, Attempt: &failed})
	r.happens(run.Event{Kind: run.RouteClosed, Attempt: &run.Attempt{Input: "evidence", Via: "page", Outcome: "unavailable"}})
	tries := r.run.Step.Unsuccessful()
	if tries == nil || tries.Discarded != 1 || len(tries.Observed.First) != 1 || tries.Observed.First[0].Reason != "no answer" {
		t.Errorf("tries = %+v, want the one look", tries)
	}
}

func TestAStepThatSucceededAtOnceSaysNothingOfTries(t *testing.T) {
	r := &recorder{t: t, run: newRun("r1", 1)}
	r.happens(needs(false))
	r.happens(supplies("agent"))
	if tries := r.run.Step.Unsuccessful(); tries != nil {
		t.Errorf("tries = %+v, want none", tries)
	}
}
