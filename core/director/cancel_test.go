package director_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

var notDone = driver.RenderNotDone("it was stopped before it changed anything")

// slowly opens a run whose step is under way: what the doer does takes time.
func slowly(t *testing.T, ended ...driver.RenderResult) (w *world, d *doer, uri string, r *api.StepReply) {
	t.Helper()
	w, d = withDoer(t, driver.EffectEffects)
	w.slow(ended...)
	uri = w.mint(plainStep)[0]
	open := w.begin(uri)
	w.allow(runOf(open), nil)
	approved := w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(open)), "elicitation/create"), yes))
	r = w.next(uri, placeholder(approved))
	w.code(r, "WAITING_FOR_DRIVER")
	if !strings.Contains(r.NextAction, "cancel true") {
		t.Errorf("next_action = %q, want how to cancel in it", r.NextAction)
	}
	return w, d, uri, r
}

func (w *world) cancels(uri string, r *api.StepReply) *api.StepReply {
	w.t.Helper()
	round, err := w.Next(w.t.Context(), w.caller, api.NextRequest{URI: uri, RunID: r.RunID, Solution: []byte(placeholder(r)), Cancel: true})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.reply(round)
}

func TestWhatADriverDoesIsCancelled(t *testing.T) {
	w, d, uri, r := slowly(t, notDone)
	got := w.cancels(uri, r)
	w.code(got, "CANCELLED")
	if last := d.asked[len(d.asked)-1]; !last.Cancel || !last.Recover || last.IdempotencyKey != d.asked[0].IdempotencyKey {
		t.Errorf("the driver was asked %+v, want to cancel the call with the same key", last)
	}
	if *got.RetryCount != 0 || !strings.Contains(got.Message, "stopped before it changed") {
		t.Errorf("reply = %+v, want what the driver said, and nothing counted", got)
	}
	again := w.nextRound(uri, placeholder(got))
	if a := w.ask(again, "elicitation/create"); !strings.Contains(string(a.Params), "act on earth") {
		t.Errorf("the question is %s, want the plan approved anew", a.Params)
	}
	if m := w.moment(r, "cancelled"); m.Verdict != "by kairos_next" {
		t.Errorf("it was cancelled %q", m.Verdict)
	}
}

func TestACancelDoesNotHideWhatHappened(t *testing.T) {
	for name, tc := range map[string]struct {
		ended []driver.RenderResult
		want  []string // codes of the cancel and of the calls after it
	}{
		"it had ended":      {[]driver.RenderResult{happenedAlready}, []string{"", ""}},
		"nobody can tell":   {[]driver.RenderResult{driver.RenderUnknown("it was in the middle of it")}, []string{"OUTCOME_UNKNOWN", "OUTCOME_UNKNOWN"}},
		"it takes its time": {[]driver.RenderResult{driver.RenderLater("it ends", time.Second), notDone}, []string{"WAITING_FOR_DRIVER", "CANCELLED"}},
	} {
		t.Run(name, func(t *testing.T) {
			w, d, uri, r := slowly(t, tc.ended...)
			for i, want := range tc.want {
				if i == 0 {
					r = w.cancels(uri, r)
				} else {
					w.machine.Pass(time.Minute)
					r = w.next(uri, placeholder(r))
				}
				w.code(r, want)
			}
			if len(d.did) != 0 {
				t.Errorf("it did %q again", d.did)
			}
			if solved := len(w.state(runOf(r)).Proofs); solved != 0 != (tc.want[0] == "") {
				t.Errorf("%d steps are solved", solved)
			}
		})
	}
}

var happenedAlready = driver.RenderResult{Answer: &driver.Answer{Value: []byte(`{"ok":true}`), Provenance: driver.ServerObserved}}

func TestWhereNothingRunsNothingIsCancelled(t *testing.T) {
	w, d := withDoer(t, driver.EffectEffects)
	uri := w.mint(plainStep)[0]
	open := w.begin(uri)
	got := w.cancels(uri, open)
	if w.code(got, ""); !strings.Contains(got.Message, "nothing to cancel") || got.Challenge.Nonce != open.Challenge.Nonce {
		t.Errorf("reply = %+v, want the open step as it was", got)
	}
	_, err := w.Cancel(t.Context(), w.caller, director.CancelInput{Run: runOf(open), By: "me"})
	refused(t, err, fault.InvalidArgument)
	if len(d.asked) != 0 {
		t.Errorf("the driver was asked %+v", d.asked)
	}
}

func TestAnEndedRunLeavesNothingRunning(t *testing.T) {
	w, d, uri, r := slowly(t, notDone)
	reply, err := w.Attest(t.Context(), w.caller, api.AttestRequest{URI: uri, RunID: r.RunID, Outcome: "failure", Message: "enough"})
	if err != nil || reply.Verified {
		t.Fatalf("Attest = %+v, %v", reply, err)
	}
	if last := d.asked[len(d.asked)-1]; !last.Cancel {
		t.Errorf("the driver was asked %+v, want to cancel", last)
	}
	if s := w.state(runOf(r)).State; s != run.Closed {
		t.Errorf("the run is %s", s)
	}
}

func TestAnAbandonedRunLeavesNothingRunning(t *testing.T) {
	w, d, _, r := slowly(t, notDone)
	elsewhere, id := w.caller, runOf(r)
	elsewhere.Detached = true
	_, err := w.Abandon(t.Context(), elsewhere, id, "enough")
	refused(t, err, fault.InvalidArgument, "kairos runs cancel")
	if s := w.state(id).State; s != run.Waiting {
		t.Errorf("the run is %s, want it to wait still", s)
	}
	if s, err := w.Abandon(t.Context(), w.caller, id, "enough"); err != nil || s.State != run.Ended {
		t.Errorf("Abandon = %+v, %v, want the run, ended", s, err)
	}
	if last := d.asked[len(d.asked)-1]; !last.Cancel {
		t.Errorf("the driver was asked %+v, want to cancel", last)
	}

	w, _, _, r = slowly(t, notDone)
	if _, err := w.Cancel(t.Context(), elsewhere, director.CancelInput{Run: runOf(r), By: "me"}); err != nil {
		t.Fatal(err)
	}
	if s, err := w.Abandon(t.Context(), elsewhere, runOf(r), "enough"); err != nil || s.State != run.Ended {
		t.Errorf("Abandon after the cancel was recorded = %+v, %v, want the run, ended", s, err)
	}
}

// A command has drivers of its own, which know nothing of the call: the server that
// made it tells the driver.
func TestACommandOnlyRecordsThatItCancels(t *testing.T) {
	w, d, uri, r := slowly(t, notDone)
	asked := len(d.asked)
	elsewhere := w.caller
	elsewhere.Detached = true
	reply, err := w.Cancel(t.Context(), elsewhere, director.CancelInput{Run: runOf(r), By: "me"})
	if err != nil || reply.Ended || reply.Driver != "doer" || len(d.asked) != asked {
		t.Fatalf("Cancel = %+v, %v after %d calls", reply, err, len(d.asked)-asked)
	}
	w.code(w.next(uri, placeholder(r)), "CANCELLED") // long before the driver wished to be asked again

	w, d, _, r = slowly(t, notDone)
	if reply, err = w.Cancel(t.Context(), w.caller, director.CancelInput{Run: runOf(r), By: "me"}); err != nil || !reply.Ended || !d.asked[len(d.asked)-1].Cancel {
		t.Errorf("Cancel = %+v, %v, want it ended at once", reply, err)
	}
}
