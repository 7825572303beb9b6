package director_test

import (
	"slices"
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

func TestSetBacksAndJumps(t *testing.T) {
	back := func(d time.Duration) move { return func(p *play) { p.setBack(d) } } // while the server is stopped
	jumps := func(d time.Duration) move { return func(p *play) { p.machine.Jump(d) } }
	inOrder := func(p *play) { p.inOrder(runOf(p.shown)) }
	approved := []move{calls("WAITING_FOR_USER"), onPage("approved"), calls("")}
	all := map[string]scene{
		"a set back while the server runs makes no approval live longer": {moves: slices.Concat(approved, []move{
			jumps(-5 * time.Hour), passes(59 * time.Minute), calls("MISSING_FIELD"), // only the work is missing
			passes(2 * time.Minute), sends(works, "WAITING_FOR_USER", "lapsed after 1h0m0s"), inOrder,
		})},
		"a small set back loses no approval":    {moves: slices.Concat(approved, []move{back(clock.Tolerance / 2), sends(works, ""), inOrder})},
		"a jump within the time of an approval": {moves: slices.Concat(approved, []move{jumps(55 * time.Minute), sends(works, "")})},
		"a jump beyond the time of an approval": {moves: slices.Concat(approved, []move{jumps(65 * time.Minute), sends(works, "WAITING_FOR_USER")})},
		"a set back keeps no person from being asked": {client: formClient, moves: []move{
			calls(toPerson), answers(closed, "WAITING_FOR_USER"), calls(toPerson), answers(closed, "WAITING_FOR_USER"), calls(toPerson), answers(closed, "WAITING_FOR_USER"),
			calls("WAITING_FOR_USER"), back(5 * time.Hour), calls(toPerson),
		}},
		// Which routes a call has tried does not depend on what the clock showed then.
		"a set back closes no route to the next call": {
			doc: with(askStep, `"approval_mode":"auto"`), client: driver.Client{ElicitationForm: true, Sampling: true}, change: modelFirst,
			moves: []move{calls(toModel), breaksDown(toPerson), breaksDown("SAMPLING_FAILED"), back(5 * time.Hour), calls(toModel)},
		},
	}
	for name, tc := range map[string]struct{ later, back time.Duration }{
		"to before the approval":    {0, 5 * time.Hour},
		"to behind the approval":    {30 * time.Minute, 20 * time.Minute},
		"by more than a year":       {time.Minute, 400 * 24 * time.Hour},
		"by little more than a TTL": {time.Minute, 61 * time.Minute},
	} {
		all["a set back between two servers ends an approval: "+name] = scene{moves: slices.Concat(approved, []move{
			passes(tc.later), submits(wrongHash, "PROOF_HASH_MISMATCH"), // recorded, so that the time is known
			back(tc.back), sends(works, "WAITING_FOR_USER", "because the server's clock was set back"),
			onPage("approved"), calls(""), passes(50 * time.Minute), sends(works, ""), inOrder, // what is approved now counts, by the clock as it is now
		})}
	}
	for name, moves := range map[string][]move{
		"whatever the clock shows":   {passes(61 * time.Minute)},
		"while the server runs":      {jumps(-5 * time.Hour), passes(61 * time.Minute)},
		"while it is stopped":        {back(5 * time.Hour)},
		"to when the link was there": {passes(30 * time.Minute), sends(works, "WAITING_FOR_USER"), back(20 * time.Minute)}, // the work is recorded
	} {
		all["a set back lets no link live longer: "+name] = scene{moves: slices.Concat([]move{calls("WAITING_FOR_USER")}, moves, []move{func(p *play) {
			old := p.shown
			if v := p.decide(old, "approved", ""); v.State != approval.Expired {
				p.t.Errorf("state = %s, want expired", v.State)
			}
			calls("WAITING_FOR_USER")(p)
			if v := p.decide(p.shown, "approved", ""); v.State != approval.Approved || p.shown.ApprovalURL == old.ApprovalURL {
				p.t.Errorf("by the new link %s it is %s, want approved", p.shown.ApprovalURL, v.State)
			}
			if v := p.view(old); v.State != approval.Replaced {
				p.t.Errorf("the old link shows %s, want replaced", v.State)
			}
		}})}
	}
	for name, s := range all {
		if s.doc == "" {
			s.doc, s.change = gatedDoc, hasPage
		}
		t.Run(name, func(t *testing.T) { s.play(t) })
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
