package director_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// gatedCall is a protocol whose only step is a call that a person approves.
func gatedCall(title, tool string) string {
	return fmt.Sprintf("# %s\n\n## Act\n\n%s does it\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"approval_mode\":\"user\",\"mcp\":{\"tool_name\":%q}}}\n```\n", title, title, tool)
}

// barred is what a reply says where a person has declined.
const barred = "only a person can approve what a person declined"

// declinedOnce is a world in which a person declined a call, and where the agent's
// word counts as an approval if it comes through a client without forms.
func declinedOnce(t *testing.T, keep time.Duration) (*world, string) {
	t.Helper()
	w := newWorld(t, func(o *choices) { o.How, o.DeclineTTL = allWays, keep })
	uri := w.mint(gatedCall("Gated", "go"))[0]
	w.declines(uri)
	return w, uri
}

// declines begins a run whose approval a person declines in a form.
func (w *world) declines(uri string) {
	w.t.Helper()
	client := w.caller.Client
	w.caller.Client = formClient
	w.code(w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(w.begin(uri))), toPerson), no)), "USER_DECLINED")
	w.caller.Client = client
}

// agentApproves begins a run and submits an approval as the agent.
func (w *world) agentApproves(uri string) *api.StepReply {
	w.t.Helper()
	open := w.begin(uri)
	return w.next(uri, solveAs(open, "user_input", approves))
}

func TestADeclineIsNotUndoneByAnotherRun(t *testing.T) {
	for name, tc := range map[string]struct {
		keep   time.Duration
		again  string // the protocol that asks again; empty: the same
		then   func(*world)
		barred bool
	}{
		"the same protocol":                 {keep: time.Hour, barred: true},
		"a copy with other words":           {keep: time.Hour, again: gatedCall("Another", "go"), barred: true},
		"another server, after a restart":   {keep: time.Hour, then: func(w *world) { w.Engine = w.another() }, barred: true},
		"shortly before it is forgotten":    {keep: time.Hour, then: func(w *world) { w.machine.Pass(59 * time.Minute) }, barred: true},
		"once it is forgotten":              {keep: time.Hour, then: func(w *world) { w.machine.Pass(time.Hour) }},
		"another call":                      {keep: time.Hour, again: gatedCall("Gated", "come")},
		"another space":                     {keep: time.Hour, then: func(w *world) { w.caller.Principal, w.caller.Space = "other", "user:test:other" }, again: gatedCall("Gated", "go")},
		"where declines are not remembered": {},
	} {
		t.Run(name, func(t *testing.T) {
			w, uri := declinedOnce(t, tc.keep)
			if tc.then != nil {
				tc.then(w)
			}
			if tc.again != "" {
				uri = w.mint(tc.again)[0]
			}
			r := w.agentApproves(uri)
			if !tc.barred {
				w.code(r, "")
				return
			}
			contains(t, textOf(r), barred)
		})
	}
}

// A copy of the protocol cannot leave the approval out.
func TestADeclineStandsInFrontOfACopyWithoutAnApproval(t *testing.T) {
	w, _ := declinedOnce(t, time.Hour)
	without := func(tool string) (string, *api.StepReply) {
		uri := w.mint(strings.Replace(gatedCall("Copy for "+tool, tool), `"approval_mode":"user",`, "", 1))[0]
		return uri, w.begin(uri)
	}
	uri, open := without("go")
	r := w.next(uri, solve(open, `{"ok":true}`))
	if contains(t, textOf(r), barred); len(vouchers(r)) != 0 {
		t.Errorf("solved = %+v", r.Solved)
	}
	other, openOther := without("come")
	w.code(w.next(other, solve(openOther, `{"ok":true}`)), "")

	w.caller.Client = formClient
	r = w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(open)), toPerson), yes))
	if w.code(r, ""); !strings.Contains(r.Message+r.NextAction, "is approved") {
		t.Errorf("reply = %s %s, want the step approved", r.Message, r.NextAction)
	}
}

// A client's own review is not a person who was asked.
func TestAReviewDoesNotUndoADecline(t *testing.T) {
	w := newWorld(t, func(o *choices) { o.DeclineTTL = time.Hour })
	doc := strings.Replace(gatedCall("Gated", "go"), `"mcp":{`, `"sampling":{"user":"do it"},"mcp":{`, 1)
	uri := w.mint(doc)[0]
	w.caller.Client = formClient
	w.code(w.reply(w.answer(w.ask(w.beginRound(uri, ""), toPerson), no)), "USER_DECLINED")
	w.caller.Client = driver.Client{Sampling: true}
	if r := w.beginRound(uri, ""); r.Ask != nil {
		t.Errorf("the client is asked %s %s, want nothing: nobody approved it", r.Ask.Method, r.Ask.Params)
	}
}

func TestAPersonIsToldOfAnEarlierDeclineAndMayChangeTheirMind(t *testing.T) {
	w, uri := declinedOnce(t, time.Hour)
	w.machine.Pass(12 * time.Minute)
	w.caller.Client = formClient
	a := w.ask(w.nextRound(uri, placeholder(w.begin(uri))), toPerson)
	contains(t, string(a.Params), "declined this 12 minutes ago, in run ", "of \\\"Gated\\\"")
	w.code(w.reply(w.answer(a, yes)), "")
	w.caller.Client = driver.Client{}
	w.code(w.agentApproves(uri), "")
}

// A link to the approval page does not show that its holder is the person.
func TestTheHolderOfALinkDoesNotUndoADecline(t *testing.T) {
	w := withPage(t, func(o *choices) { o.DeclineTTL = time.Hour })
	uri, waits := w.gate(gatedCall("Gated", "go"))
	again := w.next(uri, placeholder(w.begin(uri)))
	w.code(again, "WAITING_FOR_USER")
	w.decide(waits, "rejected", "")
	if v := w.view(again); !v.DeclineStands || !strings.Contains(v.Declined, "A person declined this") {
		t.Errorf("the page offers what it refuses: %+v", v)
	}
	answer := approval.Answer{Decision: "approved", Digest: w.view(again).Digest}
	_, err := w.AnswerApproval(t.Context(), w.caller, runOf(again), secretOf(again), answer)
	refused(t, err, fault.InvalidArgument, "cannot take a decline back")
	later := w.next(uri, placeholder(w.begin(uri)))
	w.code(later, "APPROVAL_UNAVAILABLE")
	if later.ApprovalURL != "" || !strings.Contains(later.Message, "undecline "+later.RunID) {
		t.Errorf("reply = %+v, want how the decline is taken back, and no link", later)
	}
	answer.By = "me"
	if _, err := w.AnswerApproval(t.Context(), w.caller, runOf(again), secretOf(again), answer); err != nil {
		t.Errorf("AnswerApproval of a person who is logged in = %v", err)
	}
}

// statedCall is a gated call whose driver says what of it is the action.
func statedCall(action, other string) string {
	return strings.Replace(gatedCall("Gated", "go"), `"tool_name":"go"`, fmt.Sprintf(`"action":%s,"other":%q`, action, other), 1)
}

func TestADeclineIsOfWhatTheDriverSaysIsTheAction(t *testing.T) {
	const book = `{"tool":"book","arguments":{"at":10}}`
	for name, tc := range map[string]struct {
		again  string
		barred bool
	}{
		"a parameter that does not matter":   {statedCall(book, "31"), true},
		"without the arguments":              {statedCall(`{"tool":"book"}`, "30"), true},
		"other arguments":                    {statedCall(`{"tool":"book","arguments":{"at":11}}`, "30"), false},
		"another tool":                       {statedCall(`{"tool":"look","arguments":{"at":10}}`, "30"), false},
		"the same, of another type":          {strings.ReplaceAll(statedCall(book, "30"), `"mcp"`, `"shell"`), false},
		"an action of which nothing is told": {gatedCall("Gated", "go"), true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, func(o *choices) { o.How, o.DeclineTTL = allWays, time.Hour })
			w.declines(w.mint(statedCall(book, "30"))[0])
			contains(t, textOf(w.agentApproves(w.mint(tc.again)[0])), map[bool]string{true: "", false: "not: "}[tc.barred]+barred)
		})
	}
}

// The decline of a tool with any arguments is not forgotten with one call of it.
func TestAnApprovalForgetsNoMoreThanWasApproved(t *testing.T) {
	w := newWorld(t, func(o *choices) { o.How, o.DeclineTTL = allWays, time.Hour })
	ask := func(action string) *director.Ask {
		uri := w.mint(statedCall(action, "30"))[0]
		return w.ask(w.nextRound(uri, placeholder(w.begin(uri))), toPerson)
	}
	w.caller.Client = formClient
	w.code(w.reply(w.answer(ask(`{"tool":"book"}`), no)), "USER_DECLINED")
	for i, action := range []string{`{"tool":"book","arguments":{"at":10}}`, `{"tool":"book","arguments":{"at":11}}`, `{"tool":"book"}`, `{"tool":"book"}`} {
		a := ask(action)
		if told := strings.Contains(string(a.Params), "A person declined "); told != (i < 3) {
			t.Errorf("question %d, for %s, tells of an earlier decline: %v", i+1, action, told)
		}
		w.code(w.reply(w.answer(a, yes)), "")
	}
}

// A decline in one space binds the principal in another, and tells nothing of a space that the caller cannot read.
func TestADeclineIsOfItsPrincipalInAllSpaces(t *testing.T) {
	w, _ := declinedOnce(t, time.Hour)
	w.caller.Space = "user:test:elsewhere"
	uri := w.mint(gatedCall("Another", "go"))[0]
	contains(t, textOf(w.agentApproves(uri)), barred, "not: Gated")
	w.caller.Client = formClient
	a := w.ask(w.nextRound(uri, placeholder(w.begin(uri))), toPerson)
	contains(t, string(a.Params), "ago, in another space.", "not: Gated", "not: in run")
	w.code(w.reply(w.answer(a, yes)), "")
	w.caller.Client = driver.Client{}
	w.code(w.agentApproves(uri), "")
}

// Others who work in a space are bound by what was declined in it.
func TestADeclineIsOfItsSpaceForEverybody(t *testing.T) {
	w, uri := declinedOnce(t, time.Hour)
	w.caller.Principal = "other"
	contains(t, textOf(w.agentApproves(uri)), barred)
}

// Arguments are the same whether the step states them or the agent proposes them.
func TestAProposalIsTheActionThatAStepStates(t *testing.T) {
	w, d := withDoer(t, driver.EffectChanges, func(o *choices) { o.DeclineTTL = time.Hour })
	d.states = true
	declined := func(arguments, proposal string) string {
		uri := w.mint(strings.Replace(plainStep, `"tool_name":"go"`, `"action":{"tool":"go"`+arguments+`}`, 1))[0]
		open := w.begin(uri)
		w.allow(runOf(open), nil)
		d.asks = proposal != ""
		solution := placeholder(open)
		if d.asks {
			solution = solve(open, proposal)
		}
		a := w.ask(w.nextRound(uri, solution), toPerson)
		w.code(w.reply(w.answer(a, no)), "USER_DECLINED")
		return string(a.Params)
	}
	for i, asked := range []struct {
		arguments, proposal string
		told                bool
	}{
		{`,"arguments":{"to":"adam"}`, "", false},
		{"", `{"to":"betty"}`, false}, // a step that leaves something to the agent is another action for each proposal
		{"", `{"to":"adam"}`, true},
		{`,"arguments":{"to":"betty"}`, "", true},
	} {
		if told := strings.Contains(declined(asked.arguments, asked.proposal), "A person declined this"); told != asked.told {
			t.Errorf("question %d tells of an earlier decline: %v", i+1, told)
		}
	}
}
