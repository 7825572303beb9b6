package director_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// statedStep asks for a person's own answer and states approval mode user.
var statedStep = strings.Replace(askStep, `"type":`, `"approval_mode":"user","type":`, 1)

// asked is a world with a page whose user_input asks for yes or no, or by a form.
func asked(t *testing.T, yesOrNo bool, change func(*choices)) *world {
	t.Helper()
	w := withPage(t, change)
	w.drivers.set("asks yes or no user_input", yesOrNo)
	return w
}

// TestAStatedApprovalModeTakesNoReport: where the step states approval mode user,
// the agent's text is refused, and the server asks the person.
func TestAStatedApprovalModeTakesNoReport(t *testing.T) {
	const yes = `{"action":"accept","content":{"confirmation":"approved"}}`
	for name, yesOrNo := range map[string]bool{"yes or no": true, "a form": false} {
		t.Run(name, func(t *testing.T) {
			w := asked(t, yesOrNo, func(o *choices) { o.Settings.Approval.TrustAgent = true })
			w.caller.Client = driver.Client{ElicitationForm: true, Sampling: true}
			uri := w.mint(statedStep)[0]
			r := w.begin(uri)
			if !strings.Contains(r.Challenge.Description, "own answer") {
				t.Errorf("description = %q, want that only the person's own answer counts", r.Challenge.Description)
			}
			for i, said := range []string{"approved", "rejected"} {
				r = w.next(uri, solve(r, `{"confirmation":"`+said+`"}`))
				w.code(r, "EVIDENCE_NOT_ACCEPTED")
				if *r.RetryCount != i+1 || !strings.Contains(r.NextAction, placeholder(r)) || r.NextCall == nil {
					t.Errorf("reply = %+v, want a counted failure and the call that asks the person", r)
				}
			}
			done := w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create"), yes))
			w.code(done, "")
			if len(done.Solved) != 1 || done.Solved[0].Provenance != driver.ClientAttested || done.Solved[0].Via != "elicitation" {
				t.Errorf("solved = %+v, want the person's answer", done.Solved)
			}
		})
	}
}

func TestWithoutAStatedModeTheAgentsAnswerCounts(t *testing.T) {
	for _, yesOrNo := range []bool{true, false} {
		w := asked(t, yesOrNo, nil)
		uri := w.mint(askStep)[0]
		done := w.next(uri, solve(w.begin(uri), `{"confirmation":"fine with me"}`))
		if len(done.Solved) != 1 || done.Solved[0].Provenance != driver.AgentReported {
			t.Errorf("solved = %+v, want the agent's report", done.Solved)
		}
	}
}

// TestAPersonAnswersYesOrNoOnThePage: a client that can ask nobody gets a link, and
// what is said there is the step's answer, from whoever had the link.
func TestAPersonAnswersYesOrNoOnThePage(t *testing.T) {
	w := asked(t, true, nil)
	uri, waits := w.gate(statedStep)
	if v := w.view(waits); v.Type != "user_input" || !strings.Contains(string(v.Display), "ok?") {
		t.Errorf("view = %+v, want the question of the step", v)
	}
	w.decide(waits, "rejected", "")
	no := w.next(uri, placeholder(waits))
	w.code(no, "USER_DECLINED")
	w.undecline(no)
	again := w.next(uri, placeholder(no))
	w.decide(again, "approved", "")
	done := w.next(uri, placeholder(again))
	w.code(done, "")
	if len(done.Solved) != 1 || done.Solved[0].Provenance != driver.LinkHolder || done.Solved[0].Via != "page" {
		t.Errorf("solved = %+v, want the answer of the person with the link", done.Solved)
	}
}

func TestNobodyAnswersInThePersonsPlace(t *testing.T) {
	for name, client := range map[string]driver.Client{"no capability": {}, "only a model": {Sampling: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *choices) {
				o.Settings.Approval.TrustAgent = true
				o.Settings.UserInput.Enabled, o.Settings.UserInput.Driver = true, "sampling"
			})
			w.caller.Client = client
			uri := w.mint(statedStep)[0]
			r := w.next(uri, placeholder(w.begin(uri)))
			w.code(r, "APPROVAL_UNAVAILABLE")
			w.code(w.next(uri, solve(r, `{"confirmation":"approved"}`)), "EVIDENCE_NOT_ACCEPTED")
		})
	}
}

func TestAPhraseIsTypedForAPersonsOwnAnswer(t *testing.T) {
	doc := strings.Replace(askStep, `"type":`, `"approval_phrase":"go ahead","type":`, 1)
	w := asked(t, true, nil)
	uri, waits := w.gate(doc)
	_, err := w.AnswerApproval(t.Context(), w.caller, runOf(waits), secretOf(waits), approval.Answer{Decision: "approved", Digest: w.view(waits).Digest})
	if fault.CodeOf(err) != fault.InvalidArgument {
		t.Errorf("an approval without the phrase = %v, want it refused", err)
	}
	w.decide(waits, "approved", "go ahead")
	w.code(w.next(uri, placeholder(waits)), "")
	if a := w.state(runOf(waits)).Evidence[0].Approval; a == nil || !a.Typed {
		t.Errorf("approval = %+v, want one that was typed", a)
	}

	w = asked(t, false, nil)
	_, err = w.Begin(t.Context(), w.caller, api.BeginRequest{URI: w.mint(doc)[0]})
	if fault.CodeOf(err) != fault.InvalidArgument || !strings.Contains(err.Error(), "approval_phrase of step 1") {
		t.Errorf("Begin = %v, want that nobody can type the phrase", err)
	}
}
