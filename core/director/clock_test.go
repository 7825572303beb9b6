package director_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// setBack sets the machine's clock back while the server is stopped.
func (w *world) setBack(d time.Duration) {
	w.machine.Jump(-d)
	w.Engine = w.another()
}

// approved is a run whose gated step a person has just approved.
func (w *world) approved() (uri string, open *api.StepReply) {
	w.t.Helper()
	uri, waits := w.gate(gatedDoc)
	if v := w.decide(waits, "approved", ""); v.State != approval.Approved {
		w.t.Fatalf("the approval is %s, want approved", v.State)
	}
	return uri, w.next(uri, placeholder(waits))
}

// inOrder checks that the events of the run are in the order of their times.
func (w *world) inOrder(id run.ID) []run.Event {
	w.t.Helper()
	events, err := w.store.Events(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	for i, ev := range events {
		if i > 0 && ev.At.Before(events[i-1].At) {
			w.t.Errorf("event %d, %s, is at %s, before event %d at %s", i+1, ev.Kind, ev.At, i, events[i-1].At)
		}
	}
	return events
}

func TestASetBackWhileTheServerRunsMakesNoApprovalLiveLonger(t *testing.T) {
	w := withPage(t, nil)
	uri, open := w.approved()
	w.machine.Jump(-5 * time.Hour)
	w.machine.Pass(59 * time.Minute)
	kept := w.next(uri, placeholder(open))
	w.code(kept, "MISSING_FIELD") // only the work is missing
	w.machine.Pass(2 * time.Minute)
	r := w.next(uri, solve(kept, `{"ok":true}`))
	w.code(r, "WAITING_FOR_USER")
	if !strings.Contains(r.Message, "lapsed after 1h0m0s") {
		t.Errorf("message = %q, want that the approval lapsed", r.Message)
	}
	w.inOrder(runOf(r))
}

func TestASetBackBetweenTwoServersEndsAnApproval(t *testing.T) {
	for name, tc := range map[string]struct{ later, back time.Duration }{
		"to before the approval":    {0, 5 * time.Hour},
		"to behind the approval":    {30 * time.Minute, 20 * time.Minute},
		"by more than a year":       {time.Minute, 400 * 24 * time.Hour},
		"by little more than a TTL": {time.Minute, 61 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := withPage(t, nil)
			uri, open := w.approved()
			w.machine.Pass(tc.later)
			open = w.next(uri, strings.Replace(solve(open, `{"ok":true}`), open.Challenge.ProofHash, "another", 1))
			w.code(open, "PROOF_HASH_MISMATCH") // recorded, so that the time is known
			w.setBack(tc.back)
			r := w.next(uri, solve(open, `{"ok":true}`))
			w.code(r, "WAITING_FOR_USER")
			if !strings.Contains(r.Message, "because the server's clock was set back") {
				t.Errorf("message = %q, want why a person is asked again", r.Message)
			}
			// What is approved now counts, by the clock as it is now.
			w.decide(r, "approved", "")
			again := w.next(uri, placeholder(r))
			w.machine.Pass(50 * time.Minute)
			w.code(w.next(uri, solve(again, `{"ok":true}`)), "")
			w.inOrder(runOf(r))
		})
	}
}

func TestASmallSetBackLosesNoApproval(t *testing.T) {
	w := withPage(t, nil)
	uri, open := w.approved()
	w.setBack(clock.Tolerance / 2)
	w.code(w.next(uri, solve(open, `{"ok":true}`)), "")
	w.inOrder(runOf(open))
}

func TestAJumpForwardEndsAnApprovalInItsTimeAndNotBefore(t *testing.T) {
	for name, tc := range map[string]struct {
		forward time.Duration
		code    string
	}{
		"within its time":   {55 * time.Minute, ""},
		"beyond its time":   {65 * time.Minute, "WAITING_FOR_USER"},
		"and back, at once": {0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := withPage(t, nil)
			uri, open := w.approved()
			w.machine.Jump(tc.forward)
			w.code(w.next(uri, solve(open, `{"ok":true}`)), tc.code)
		})
	}
}

func TestASetBackLetsNoLinkLiveLonger(t *testing.T) {
	for name, change := range map[string]func(*world, *api.StepReply){
		"while the server runs": func(w *world, _ *api.StepReply) {
			w.machine.Jump(-5 * time.Hour)
			w.machine.Pass(61 * time.Minute)
		},
		"while it is stopped": func(w *world, _ *api.StepReply) { w.setBack(5 * time.Hour) },
		"to when the link was there": func(w *world, waits *api.StepReply) {
			w.machine.Pass(30 * time.Minute)
			w.code(w.next(waits.CurrentStep.URI, solve(waits, `{"ok":true}`)), "WAITING_FOR_USER") // recorded
			w.setBack(20 * time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := withPage(t, nil)
			uri, waits := w.gate(gatedDoc)
			change(w, waits)
			if v := w.decide(waits, "approved", ""); v.State != approval.Expired {
				t.Errorf("state = %s, want expired", v.State)
			}
			fresh := w.next(uri, placeholder(waits))
			w.code(fresh, "WAITING_FOR_USER")
			if fresh.ApprovalURL == waits.ApprovalURL {
				t.Error("the link is given out again")
			}
			if v := w.decide(fresh, "approved", ""); v.State != approval.Approved {
				t.Errorf("by the new link it is %s, want approved", v.State)
			}
		})
	}
}

// TestASetBackDuringACallKeepsWhatItsApprovalCovers: the call that was approved is
// finished, and another one needs another approval.
func TestASetBackDuringACallKeepsWhatItsApprovalCovers(t *testing.T) {
	epoch := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	in := driver.Input{ID: "evidence", Kind: driver.KindEvidence}
	call := run.Call{Input: in.ID, Driver: "pay", Attempt: 1, Acts: true, At: epoch.Add(time.Minute)}
	r := run.Run{ID: "r", StepCount: 1, State: run.Open, Step: run.Step{Index: 1, Nonce: "n"}, CreatedAt: epoch, UpdatedAt: epoch}
	apply := func(r run.Run, clock time.Time, ev run.Event) (run.Run, error) {
		ev.Run, ev.Step = r.ID, 1
		ev.At, ev.Clock = r.Stamp(clock)
		return run.Apply(r, ev)
	}
	for _, ev := range []run.Event{
		{Kind: run.Needed, Inputs: []driver.Input{in}, Gated: true, Digest: "d"},
		{Kind: run.Supplied, Input: driver.KindApproval, Via: "page", Approval: &run.Approval{Digest: "d", Via: "page", GrantedAt: epoch, ExpiresAt: epoch.Add(time.Hour)}},
		{Kind: run.Called, Input: in.ID, Via: "pay", Call: &call},
	} {
		var err error
		if r, err = apply(r, epoch.Add(time.Minute), ev); err != nil {
			t.Fatal(err)
		}
	}
	earlier := epoch.Add(30 * time.Second)
	lapsed, err := apply(r, earlier, run.Event{Kind: run.Lapsed, Input: driver.KindApproval, Via: "page", Reason: "set back"})
	if err != nil {
		t.Fatal(err)
	}
	answer := run.Event{Kind: run.Supplied, Input: in.ID, Via: "pay", Answer: &driver.Answer{InputID: in.ID, Via: "pay", Value: []byte(`{}`)}}
	if _, err := apply(lapsed, earlier, answer); err != nil {
		t.Errorf("the outcome of the approved call: %v, want it taken", err)
	}
	settled, err := apply(lapsed, earlier, run.Event{Kind: run.Settled, Input: in.ID, Via: "pay", Reason: "not done"})
	if err != nil {
		t.Fatal(err)
	}
	if settled.Step.Approved("page", run.Event{At: earlier}) {
		t.Error("the approval is good for another call")
	}
}

func TestASetBackTurnsNoEventAround(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true}`))
	before := w.state(runOf(r)).UpdatedAt
	w.setBack(5 * time.Hour)
	r = w.next(uris[1], solve(r, `{"ok":false}`))
	w.machine.Pass(6 * time.Hour)
	r = w.next(uris[1], solve(r, `{"ok":true}`))
	w.setBack(time.Minute)
	w.finish(r)
	events := w.inOrder(runOf(r))
	told := slices.IndexFunc(events, func(ev run.Event) bool { return !ev.Clock.IsZero() })
	if told < 0 || !events[told].Clock.Before(before) || events[told].At.Before(before) {
		t.Errorf("events = %+v, want one that names what the clock showed", events)
	}
	w.verified(runOf(r))
	state := w.state(runOf(r))
	for i, p := range state.Proofs {
		if i > 0 && p.At.Before(state.Proofs[i-1].At) {
			t.Errorf("proof %d is at %s, before the one at %s", i+1, p.At, state.Proofs[i-1].At)
		}
	}
}

// TestASetBackClosesNoRouteToTheNextCall: which routes a call has tried does not
// depend on what the clock showed then.
func TestASetBackClosesNoRouteToTheNextCall(t *testing.T) {
	w := newWorld(t, modelFirst)
	uri := w.mint(strings.Replace(askStep, `"type":`, `"approval_mode":"auto","type":`, 1))[0]
	w.caller.Client = driver.Client{ElicitationForm: true, Sampling: true}
	r := w.begin(uri)
	ask := w.ask(w.nextRound(uri, placeholder(r)), "sampling/createMessage")
	r = w.reply(w.fails(w.ask(w.fails(ask), "elicitation/create")))
	w.code(r, "SAMPLING_FAILED")
	w.setBack(5 * time.Hour)
	w.ask(w.nextRound(uri, placeholder(r)), "sampling/createMessage")
}

func TestASetBackDoesNotKeepAPersonFromBeingAsked(t *testing.T) {
	w := withPage(t, nil)
	w.caller.Client = driver.Client{ElicitationForm: true}
	uri := w.mint(gatedStep)[0]
	r := w.begin(uri)
	for range 3 {
		r = w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create"), closed))
	}
	w.setBack(5 * time.Hour)
	w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
}

func TestASetBackDoesNotKeepADriverFromBeingAsked(t *testing.T) {
	w := newWorld(t, nil)
	later := gives(driver.AdvanceLater("the build is running", 30*time.Second))
	s, uri, r := w.withScript(driver.EffectReads, nil, later, later, accepts)
	got := w.reply(w.nextRound(uri, solve(r, `{"ok":true}`)))
	w.code(got, "WAITING_FOR_DRIVER")
	w.setBack(5 * time.Hour)
	round := w.nextRound(uri, placeholder(got))
	w.code(w.reply(round), "WAITING_FOR_DRIVER")
	if n := len(s.requests()); n != 2 || round.Later == nil || round.Later.After > time.Minute {
		t.Errorf("the driver was asked %d times, and then the wait is %+v, want it asked again and a short wait", n, round.Later)
	}
	w.machine.Pass(time.Minute)
	w.code(w.reply(w.nextRound(uri, placeholder(got))), "")
}

func TestAfterASetBackAttestAsksWhichRunIsMeant(t *testing.T) {
	for _, connection := range []string{"c1", ""} {
		t.Run("connection "+connection, func(t *testing.T) {
			w := newWorld(t, nil)
			w.caller.Connection = connection
			uris := w.mint(threeSteps)
			before := w.finish(w.begin(uris[0]))
			w.setBack(5 * time.Hour)
			after := w.finish(w.begin(uris[0]))
			a := w.attest(api.AttestRequest{URI: uris[2], Outcome: "success"})
			want := []string{before.RunID, after.RunID}
			if got := slices.Sorted(slices.Values(a.Candidates)); a.ErrorCode != "AMBIGUOUS_RUN" || !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Errorf("Attest = %+v, want AMBIGUOUS_RUN with %s", a, want)
			}
			if a := w.attest(api.AttestRequest{URI: uris[2], RunID: after.RunID, Outcome: "success"}); a.RunID != after.RunID || !a.Verified {
				t.Errorf("Attest with the run_id = %+v, want it closed", a)
			}
		})
	}
}

func TestASetBackWhileTheServerRunsLeavesTheLastRunTheLast(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	first := w.finish(w.begin(uris[0]))
	w.machine.Jump(-5 * time.Hour)
	last := w.finish(w.begin(uris[0]))
	if first.RunID >= last.RunID {
		t.Errorf("run %s was begun before %s", first.RunID, last.RunID)
	}
	if a := w.attest(api.AttestRequest{URI: uris[2], Outcome: "success"}); a.RunID != last.RunID {
		t.Errorf("Attest closed %q (%s), want the last one, %s", a.RunID, a.ErrorCode, last.RunID)
	}
}

func TestAfterASetBackNextAsksWhichRunIsMeant(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	w.begin(uris[0])
	w.setBack(5 * time.Hour)
	w.begin(uris[0])
	_, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0]})
	if fault.CodeOf(err) != fault.AmbiguousRun {
		t.Errorf("Next without a run: %v, want AMBIGUOUS_RUN", err)
	}
}

func TestAJumpForwardEndsAndRemovesNothingUntilItHasHeld(t *testing.T) {
	const keep = 30 * 24 * time.Hour
	w := newWorld(t, func(c *choices) { c.RunKeep = keep })
	uris := w.mint(threeSteps)
	ended := w.begin(uris[0])
	w.attest(api.AttestRequest{URI: uris[0], RunID: ended.RunID, Outcome: "failure"})
	open := w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true}`))
	w.machine.Jump(365 * 24 * time.Hour)
	sweep := func(want archive.Swept) {
		t.Helper()
		if got, err := w.Sweep(t.Context()); err != nil || got != want {
			t.Errorf("Sweep = %+v, %v, want %+v", got, err, want)
		}
	}
	sweep(archive.Swept{})
	open = w.next(uris[1], solve(open, `{"ok":true}`))
	w.code(open, "") // its owner continues
	w.machine.Jump(-365 * 24 * time.Hour)
	w.machine.Pass(2 * clock.SettleTime)
	sweep(archive.Swept{}) // somebody has noticed
	w.machine.Jump(365 * 24 * time.Hour)
	sweep(archive.Swept{})
	w.machine.Pass(clock.SettleTime)
	sweep(archive.Swept{Expired: 1, Removed: 1})
}
