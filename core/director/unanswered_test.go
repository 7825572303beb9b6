package director_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func (w *world) unanswered(a *director.Ask) director.Round {
	w.t.Helper()
	r, err := w.Unanswered(w.t.Context(), w.caller, a.Run, a.Seq)
	if err != nil {
		w.t.Fatalf("Unanswered: %v", err)
	}
	return r
}

// attempts are the routes of the open step that gave no answer.
func (w *world) attempts(id run.ID) (tried []string) {
	w.t.Helper()
	for _, a := range w.state(id).Step.Tried {
		tried = append(tried, a.Via+" "+a.Outcome)
	}
	return tried
}

func TestAQuestionToAModelThatGetsNoAnswerGivesWayToTheNextRoute(t *testing.T) {
	w := newWorld(t, modelFirst)
	uri := w.mint(strings.Replace(askStep, `"type":`, `"approval_mode":"auto","type":`, 1))[0]
	w.caller.Client = driver.Client{ElicitationForm: true, Sampling: true}
	first := w.ask(w.nextRound(uri, placeholder(w.begin(uri))), "sampling/createMessage")
	again := w.ask(w.unanswered(first), "sampling/createMessage")
	if again.Seq != first.Seq || string(again.Params) != string(first.Params) {
		t.Errorf("asked again: %+v, want the same question as %+v", again, first)
	}
	person := w.ask(w.unanswered(again), "elicitation/create")
	if n := w.attempts(first.Run); fmt.Sprint(n) != "[sampling abandoned]" {
		t.Errorf("routes tried: %v, want sampling abandoned", n)
	}
	late := w.reply(w.answer(first, `{"action":"accept","content":{"confirmation":"approved"}}`))
	if len(late.Solved) != 0 {
		t.Error("the answer to an abandoned question was taken")
	}
	if r := w.reply(w.answer(person, `{"action":"accept","content":{"confirmation":"approved"}}`)); len(r.Solved) != 1 || r.Solved[0].Provenance != driver.ClientAttested {
		t.Errorf("solved = %+v, want the person's answer", r.Solved)
	}
}

func TestRootsThatGetNoAnswerLeaveTheReport(t *testing.T) {
	w := newWorld(t, nil)
	w.caller.Client.Roots = true
	uris := w.mint(filed(`"files":[{"path":"x"}],"files_required":false`))
	ask := w.ask(w.nextRound(uris[0], solve(w.begin(uris[0]), `{"ok":true}`)), "roots/list")
	r := w.reply(w.unanswered(w.ask(w.unanswered(ask), "roots/list")))
	w.code(r, "")
	w.at(w.next(uris[0], report(r, there("x"))), uris[1])
}

// Neither an agent with an approval of its own nor a model answers for
// the person.
func TestAPersonWhoDoesNotAnswerIsWaitedFor(t *testing.T) {
	for name, tc := range map[string]struct{ doc, answer, code string }{
		"evidence": {askStep, `{"confirmation":"approved"}`, ""},
		"approval": {"# Drop\n\n## Drop\n\nDrop it.\n\n```json\n{\"challenge\":{\"type\":\"shell\",\"approval_mode\":\"user\",\"shell\":{\"cmd\":\"drop\"}}}\n```\n", `{"confirmation":"approved"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.caller.Client = driver.Client{ElicitationForm: true, Sampling: true}
			uri := w.mint(tc.doc)[0]
			shown := w.begin(uri)
			ask := w.ask(w.nextRound(uri, placeholder(shown)), "elicitation/create")
			w.ask(w.unanswered(ask), "elicitation/create")
			for range 2 { // from then on nothing changes
				waits := w.reply(w.unanswered(ask))
				w.code(waits, "WAITING_FOR_USER")
				if !waits.MustObey || *waits.RetryCount != 0 || waits.NextCall == nil {
					t.Errorf("reply = %+v, want a call to make and no retry counted", waits)
				}
			}
			if n := w.attempts(ask.Run); len(n) != 0 {
				t.Errorf("routes tried: %v, want none", n)
			}
			again := w.ask(w.nextRound(uri, placeholder(shown)), "elicitation/create") // the placeholder asks them anew
			w.ask(w.unanswered(again), "elicitation/create")
			w.code(w.reply(w.unanswered(again)), "WAITING_FOR_USER")
			done := w.reply(w.answer(again, `{"action":"accept","content":`+tc.answer+`}`))
			if w.code(done, tc.code); len(done.Solved) == 0 && !strings.Contains(done.Message, "approved") {
				t.Errorf("reply to the late answer = %q, solved %+v, want it taken", done.Message, done.Solved)
			}
		})
	}
}

func TestAQuestionSettledMeanwhileIsNotAskedAgain(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(sampledStep)[0]
	w.caller.Client = driver.Client{Sampling: true}
	ask := w.ask(w.beginRound(uri, ""), "sampling/createMessage")
	w.code(w.reply(w.answer(ask, `{"action":"accept","content":{"ok":true}}`)), "")
	if r := w.reply(w.unanswered(ask)); !strings.Contains(r.Message, "settled") {
		t.Errorf("message = %q, want that it is settled", r.Message)
	}
}
