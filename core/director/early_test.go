package director_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// TestWorkBeforeItsApprovalIsRecordedAndTold: in the run, on the page and in the
// timeline, and with the approval that comes after it.
func TestWorkBeforeItsApprovalIsRecordedAndTold(t *testing.T) {
	w := withPage(t, nil)
	uri, waits := w.gate(gatedDoc)
	if v := w.view(waits); v.Done != "Nothing is done before you approve." {
		t.Errorf("the page says %q before anything was submitted", v.Done)
	}
	for range 2 { // the same again is not another
		early := w.next(uri, solve(waits, `{"ok":true,"note":"already shipped"}`))
		w.code(early, "WAITING_FOR_USER")
	}
	if v := w.view(waits); !strings.Contains(v.Done, "Work for this step was submitted before approval") {
		t.Errorf("the page says %q, want that work was submitted", v.Done)
	}
	w.decide(waits, "approved", "")
	open := w.next(uri, placeholder(waits))
	w.code(w.next(uri, solve(open, `{"ok":true}`)), "")
	if a := w.state(runOf(waits)).Evidence[1].Approval; a == nil || a.Premature != 1 {
		t.Errorf("approval = %+v, want that work was submitted before it", a)
	}
	line, err := w.Timeline(t.Context(), w.caller, runOf(waits))
	if err != nil {
		t.Fatal(err)
	}
	told := slices.IndexFunc(line.Moments, func(m archive.Moment) bool { return m.What == string(run.Premature) })
	if told < 0 || !strings.Contains(line.Moments[told].Verdict, "before the step was approved") || !strings.Contains(string(line.Moments[told].Answer), "already shipped") {
		t.Errorf("moments = %+v, want the work that came too early", line.Moments)
	}
}

// TestTheFormSaysThatWorkCameBeforeTheApproval: also where the form is out when
// the work comes.
func TestTheFormSaysThatWorkCameBeforeTheApproval(t *testing.T) {
	w := newWorld(t, nil)
	w.caller.Client = driver.Client{ElicitationForm: true}
	held := map[int64]bool{}
	w.caller.Asked = func(_ run.ID, seq int64) { held[seq] = true }
	w.caller.Holding = func(_ run.ID, seq int64) bool { return held[seq] }
	uri := w.mint(gatedStep)[0]
	r := w.begin(uri)
	first := w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
	if !strings.Contains(string(first.Params), "Nothing is done before you approve") {
		t.Errorf("question = %s", first.Params)
	}
	second := w.ask(w.nextRound(uri, solve(r, `{"ok":true}`)), "elicitation/create")
	if second.Seq == first.Seq || strings.Contains(string(second.Params), "Nothing is done") || !strings.Contains(string(second.Params), "submitted before approval") {
		t.Errorf("question %d after %d = %s, want another that says what was submitted", second.Seq, first.Seq, second.Params)
	}
	third := w.ask(w.nextRound(uri, solve(r, `{"ok":true,"note":"again"}`)), "elicitation/create")
	if third.Seq != second.Seq {
		t.Errorf("question %d, want %d to continue", third.Seq, second.Seq)
	}
	done := w.reply(w.answer(second, `{"action":"accept","content":{"confirmation":"approved"}}`))
	w.code(done, "")
	if !strings.Contains(done.Message, "is not counted") {
		t.Errorf("message = %q, want that what was sent before is not counted", done.Message)
	}
}

// TestAnApprovalSaysHowItsPageWasReached: when it was opened, from what kind of
// address, and where the answer came from.
func TestAnApprovalSaysHowItsPageWasReached(t *testing.T) {
	w := withPage(t, nil)
	_, waits := w.gate(gatedDoc)
	w.caller.Visit = run.Visit{From: run.PublicNetwork}
	w.view(waits)
	w.caller.Visit = run.Visit{From: run.ThisMachine, Browser: true}
	if v := w.view(waits); len(v.Opened) != 1 || v.Opened[0].From != run.PublicNetwork || v.Opened[0].At.IsZero() {
		t.Errorf("opened = %+v, want the one before", v.Opened)
	}
	w.decide(waits, "approved", "") // reads the page once more
	a := w.state(runOf(waits)).Step.Approval
	if a == nil || a.Provenance != driver.LinkHolder || len(a.Visits) != 4 || a.Visits[0].From != run.PublicNetwork || !a.Visits[3].Browser {
		t.Fatalf("approval = %+v, want three openings and the answer", a)
	}
	line, err := w.Timeline(t.Context(), w.caller, runOf(waits))
	if err != nil {
		t.Fatal(err)
	}
	last := line.Moments[len(line.Moments)-1]
	for _, want := range []string{"nobody was identified", "opened 3 times before", "from this machine"} {
		if last.Provenance != driver.LinkHolder || !strings.Contains(last.Verdict, want) {
			t.Errorf("moment = %+v, want %q", last, want)
		}
	}
}

func TestOnlySoManyOpeningsAreKept(t *testing.T) {
	w := withPage(t, nil)
	_, waits := w.gate(gatedDoc)
	for range run.MaxVisits + 5 {
		w.view(waits)
	}
	w.decide(waits, "approved", "")
	if a := w.state(runOf(waits)).Step.Approval; a == nil || len(a.Visits) != run.MaxVisits+1 {
		t.Errorf("approval = %+v, want %d openings and the answer", a, run.MaxVisits)
	}
}
