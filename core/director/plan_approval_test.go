package director_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// The page shows what the form shows: what KAIROS will do itself, whole.
func TestThePageShowsThePlan(t *testing.T) {
	for name, world := range map[string]string{"short": "earth", "longer than a form": strings.Repeat("very ", 10_000) + "far"} {
		t.Run(name, func(t *testing.T) {
			w, d := withDoer(t, driver.EffectEffects, hasPage)
			d.world, w.caller.Client = world, driver.Client{}
			uri := w.mint(plainStep)[0]
			open := w.begin(uri)
			w.allow(runOf(open), nil)
			waits := w.next(uri, placeholder(open))
			w.code(waits, "WAITING_FOR_USER")
			v := w.view(waits)
			if v.Plan == nil || v.Plan.Driver != "doer" || v.Plan.Text != "act on "+world || v.Display != nil {
				t.Fatalf("the page shows %.200v, want the plan and nothing else", v)
			}
			w.decide(waits, "approved", "")
			approved := w.next(uri, placeholder(waits))
			if w.code(w.next(uri, placeholder(approved)), ""); len(d.did) != 1 {
				t.Errorf("it did %d things, want what was approved", len(d.did))
			}
		})
	}
}

// A person who is asked about the same again is told that it was done already.
func TestAnApprovalOfTheSameAgainSaysThatItWasDone(t *testing.T) {
	w, d := withDoer(t, driver.EffectEffects, hasPage)
	doc := strings.Replace(plainStep, `"type":`, `"output_schema":{"type":"object","required":["never"]},"type":`, 1)
	uri := w.mint(doc)[0]
	open := w.begin(uri)
	w.allow(runOf(open), nil)
	a := w.ask(w.nextRound(uri, placeholder(open)), "elicitation/create")
	for _, times := range []string{"once", "2 times"} {
		r := w.next(uri, placeholder(w.reply(w.answer(a, yesToTheForm))))
		w.code(r, "OUTPUT_INVALID")
		a = w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
		if q := string(a.Params); !strings.Contains(q, "KAIROS has done this step "+times+" already (driver doer)") || strings.Contains(q, "Nothing is done") {
			t.Errorf("the question is %s, want that it was done %s", q, times)
		}
	}
	if len(d.did) != 2 {
		t.Errorf("it did %d things, want 2", len(d.did))
	}
}

// A look that is repeated repeats nothing that matters.
func TestAnotherLookIsNotAnnounced(t *testing.T) {
	w, _ := withDoer(t, driver.EffectReads)
	doc := strings.Replace(plainStep, `"type":`, `"approval_mode":"user","output_schema":{"type":"object","required":["never"]},"type":`, 1)
	uri := w.mint(doc)[0]
	open := w.begin(uri)
	w.allow(runOf(open), nil)
	a := w.ask(w.nextRound(uri, placeholder(open)), "elicitation/create")
	r := w.next(uri, placeholder(w.reply(w.answer(a, yesToTheForm))))
	w.code(r, "OUTPUT_INVALID")
	if a = w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create"); !strings.Contains(string(a.Params), "Nothing is done before") {
		t.Errorf("the question is %s", a.Params)
	}
}

// A person approved the call whose outcome nobody knew. Another one they approve anew.
func TestACallThatDidNotHappenIsApprovedAnew(t *testing.T) {
	w, d, uri, r := slowly(t, driver.RenderUnknown("the line was cut"))
	w.code(w.cancels(uri, r), "OUTCOME_UNKNOWN")
	if _, err := w.Decide(t.Context(), w.caller, director.DecideInput{Run: runOf(r), By: "somebody", Reason: "nothing is there"}); err != nil {
		t.Fatal(err)
	}
	asked := len(d.asked)
	if a := w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create"); !strings.Contains(string(a.Params), "exactly this itself") || len(d.asked) != asked {
		t.Errorf("the question is %s after %d more calls, want the plan again and no call", a.Params, len(d.asked)-asked)
	}
}

// The page that took the approval also ends what runs since then.
func TestThePageCancelsWhatRunsSinceItsApproval(t *testing.T) {
	w, d := withDoer(t, driver.EffectEffects, hasPage)
	w.caller.Client = driver.Client{}
	d.slow, d.ended = true, []driver.RenderResult{notDone}
	uri := w.mint(plainStep)[0]
	open := w.begin(uri)
	w.allow(runOf(open), nil)
	waits := w.next(uri, placeholder(open))
	if v := w.view(waits); v.Running != "" {
		t.Errorf("before the approval %q runs", v.Running)
	}
	if v := w.decide(waits, "approved", ""); v.Running != "" {
		t.Errorf("before anybody called for it %q runs", v.Running)
	}
	w.code(w.next(uri, placeholder(w.next(uri, placeholder(waits)))), "WAITING_FOR_DRIVER")
	if v := w.view(waits); v.State != approval.Approved || v.Running != "doer" || v.Ending {
		t.Fatalf("the page shows %+v, want that the driver is at work", v)
	}
	v := w.decide(waits, approval.Cancel, "")
	if last := d.asked[len(d.asked)-1]; !last.Cancel || v.Running != "" {
		t.Errorf("the driver was asked %+v and the page shows %+v, want that it ended", last, v)
	}
	if v, err := w.AnswerApproval(t.Context(), w.caller, runOf(waits), secretOf(waits), approval.Answer{Decision: approval.Cancel}); err != nil || !v.Late {
		t.Errorf("a second cancel = %+v, %v, want that it was too late", v, err)
	}
	calls := len(d.asked)
	if r := w.next(uri, placeholder(waits)); !strings.Contains(r.Challenge.Description, "must approve") || len(d.asked) != calls {
		t.Errorf("then: %+v, want that it is approved anew", r)
	}
}
