package director_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/director/approval"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// asksForm makes personDoc ask for "ok", and for a note that may be left out.
const asksForm = "has a form user_input"

// fill answers the question behind the last link of a reply as somebody who is identified or not.
func (p *play) fill(by string, fields map[string][]string) (approval.View, error) {
	p.t.Helper()
	return p.AnswerApproval(p.t.Context(), p.caller, runOf(p.shown), secretOf(p.shown), approval.Answer{
		Decision: "answered", Digest: p.view(p.shown).Digest, By: by, Fields: fields,
	})
}

// fills answers it, and checks that it is answered.
func fills(by string, fields map[string][]string) move {
	return func(p *play) {
		p.t.Helper()
		if v, err := p.fill(by, fields); err != nil || v.State != approval.Answered || v.Late {
			p.t.Fatalf("the page says %+v, %v, want it answered", v, err)
		}
	}
}

// keeps checks that the link of the last reply is still good, and does not change.
func keeps() move {
	var link string
	return func(p *play) {
		p.t.Helper()
		if link == "" {
			link = p.shown.ApprovalURL
		}
		if v := p.view(p.shown); p.shown.ApprovalURL != link || v.State != approval.Open || !v.Asks {
			p.t.Errorf("approval_url = %q, want %q, still open: %+v", p.shown.ApprovalURL, link, v)
		}
	}
}

// holds checks whether the last call may wait for the person.
func holds(may bool) move {
	return func(p *play) {
		p.t.Helper()
		if (p.round.Pending != nil) != may {
			p.t.Errorf("the call waits for %+v, want that it may: %v", p.round.Pending, may)
		}
	}
}

// showsPage checks what the page behind the last link says.
func showsPage(url *string, want approval.State) move {
	return func(p *play) {
		p.t.Helper()
		old := *p.shown
		old.ApprovalURL = *url
		if v := p.view(&old); v.State != want {
			p.t.Errorf("the page says %s, want %s", v.State, want)
		}
	}
}

func okay(note string) map[string][]string {
	return map[string][]string{"ok": {"true"}, "note": {note}}
}

func TestAQuestionThatAClientAnswersItselfStaysOpenForAPerson(t *testing.T) {
	begins := func(moves ...move) []move { return append([]move{calls(toPerson)}, moves...) }
	var url string
	seen := func(p *play) { url = p.shown.ApprovalURL }
	same := keeps()
	demanding := func(t *testing.T) *world {
		w := withPage(t, nil)
		s := w.setups.present
		w.describes()
		w.setups.replace(w.ruled(s, "{type: user_input, evidence: person}"))
		return w
	}
	form := []string{asksForm}
	scenes(t, map[string]scene{
		"a decline": {doc: personDoc, client: formClient, change: hasPage, knobs: form, moves: begins(
			reflexes(no, "USER_DECLINED", byItself, "The approval page: ", "or show the person approval_url"), linked(true), counted(0), obeyed(true), holds(false),
			calls("MISSING_FIELD"), linked(true), obeyed(true), holds(true), fills("", okay("two\r\nlines")), calls(""), solved(driver.LinkHolder),
			happened("asked elicitation", "automated elicitation", "route_closed elicitation", "asked page", "route_closed elicitation", "opened page", "answered page", "accepted elicitation"),
			func(p *play) {
				m := p.moment(p.shown, "answered")
				contains(p.t, string(m.Answer), `"note":"two\nlines"`)
				contains(p.t, m.Verdict, "on the approval page, by whoever had its link: nobody was identified")
			},
		)},
		"a dismissal":    {doc: personDoc, client: formClient, change: hasPage, knobs: form, moves: begins(reflexes(closed, "WAITING_FOR_USER"), linked(true), fills("", okay("")), calls(""), solved(driver.LinkHolder))},
		"without a page": {doc: personDoc, client: formClient, knobs: form, moves: begins(reflexes(no, "USER_DECLINED", byItself), linked(false), sends(works, ""), solved(driver.AgentReported))},
		"without a form": {doc: personDoc, client: formClient, change: hasPage, moves: begins(reflexes(no, "USER_DECLINED"), linked(false))},
		"a slow decline": {doc: personDoc, client: formClient, change: hasPage, knobs: form, moves: begins(answers(no, "USER_DECLINED"), linked(false))},
		"somebody who is known": {doc: personDoc, client: formClient, change: hasPage, knobs: form, moves: begins(
			reflexes(no, "USER_DECLINED"), fills("ada", okay("x")), calls(""), solved(driver.ClientAttested),
			func(p *play) {
				m := p.moment(p.shown, "answered")
				contains(p.t, m.Verdict+"; "+run.Who(m.Provenance, m.Basis), "on the approval page, by ada;", "a person (login)")
			},
		)},
		"the agent answers": {doc: personDoc, client: formClient, change: hasPage, knobs: form, moves: begins(
			reflexes(no, "USER_DECLINED"), seen, sends(works, ""), solved(driver.AgentReported), showsPage(&url, approval.Replaced),
		)},
		"the agent answers too late": {doc: personDoc, client: formClient, change: hasPage, knobs: form, moves: begins(
			reflexes(no, "USER_DECLINED"), fills("", okay("x")), sends(works, "", "Step 1 was answered meanwhile"), solved(driver.LinkHolder),
		)},
		"the agent is wrong first": {doc: personDoc, client: formClient, change: hasPage, knobs: form, moves: begins(
			reflexes(no, "USER_DECLINED"), submits(wrongHash, "PROOF_HASH_MISMATCH"), linked(true), fills("", okay("x")), calls(""), solved(driver.LinkHolder),
		)},
		"a decline on the page": {doc: personDoc, client: formClient, change: hasPage, knobs: form, moves: begins(
			reflexes(no, "USER_DECLINED"), onPage("rejected"), calls("USER_DECLINED", "The person declined"), linked(false), sends(works, "USER_DECLINED"),
		)},
		"other clients": {doc: personDoc, client: formClient, change: hasPage, knobs: form, moves: []move{
			over("a"), calls(toPerson), reflexes(no, "USER_DECLINED"), same, calls("MISSING_FIELD"), same,
			through(driver.Client{}), calls("MISSING_FIELD"), same,
			over("b"), through(formClient), calls(toPerson), same, reflexes(closed, "WAITING_FOR_USER"), same,
			over("c"), calls(toPerson), same, answers(closed, "WAITING_FOR_USER", "on the approval page"), same,
			fills("", okay("x")), calls(""), solved(driver.LinkHolder),
		}},
		"a person in a form elsewhere": {doc: personDoc, client: formClient, change: hasPage, knobs: form, moves: []move{
			over("a"), calls(toPerson), reflexes(no, "USER_DECLINED"), seen, over("b"), calls(toPerson), answers(sampled, ""), solved(driver.ClientAttested), showsPage(&url, approval.Answered),
		}},
		"a slow decline in a form elsewhere": {doc: personDoc, client: formClient, change: hasPage, knobs: form, moves: []move{
			over("a"), calls(toPerson), reflexes(no, "USER_DECLINED"), over("b"), calls(toPerson), over("a"), calls("MISSING_FIELD"),
			over("b"), answers(no, "USER_DECLINED"), over("a"), sends(works, "USER_DECLINED"),
		}},
		"the link is too old": {doc: personDoc, client: formClient, change: hasPage, knobs: form, moves: begins(
			reflexes(no, "USER_DECLINED"), seen, passes(24*time.Hour), showsPage(&url, approval.Expired), calls("MISSING_FIELD"), keeps(), fills("", okay("x")), calls(""), solved(driver.LinkHolder),
		)},
		"only a person counts": {doc: personDoc, client: formClient, world: demanding, knobs: form, moves: begins(
			reflexes(no, "USER_DECLINED", byItself), linked(false), obeyed(false),
		)},
		"a stated approval mode": {doc: statedStep, client: formClient, change: hasPage, knobs: form, moves: begins(
			reflexes(closed, "WAITING_FOR_USER", "show the person approval_url"), linked(true), calls("WAITING_FOR_USER"), linked(true),
			fills("", okay("x")), calls(""), solved(driver.LinkHolder),
		)},
	})
}

func TestThePageTakesOnlyAnAnswer(t *testing.T) {
	open := func(t *testing.T) *play {
		t.Helper()
		w := withPage(t, nil)
		w.caller.Client = formClient
		w.drivers.set(asksForm, true)
		p := &play{world: w, uri: w.mint(personDoc)[0]}
		p.took(w.beginRound(p.uri, ""))
		calls(toPerson)(p)
		reflexes(no, "USER_DECLINED")(p)
		return p
	}
	for name, tc := range map[string]struct {
		change func(*approval.Answer)
		says   string
	}{
		"nothing":                  {func(a *approval.Answer) { a.Fields = nil }, "/ok: needs an answer"},
		"nothing that can be seen": {func(a *approval.Answer) { a.Fields = map[string][]string{"ok": {"\u200b "}} }, "/ok: needs an answer"},
		"what cannot be chosen":    {func(a *approval.Answer) { a.Fields = map[string][]string{"ok": {"perhaps"}} }, "/ok: "},
		"two answers":              {func(a *approval.Answer) { a.Fields = map[string][]string{"ok": {"true", "false"}} }, "/ok: is answered more than once"},
		"an approval":              {func(a *approval.Answer) { a.Decision = "approved" }, "must be answered or rejected"},
		"an answer to another":     {func(a *approval.Answer) { a.Digest = strings.Repeat("0", len(a.Digest)) }, "has changed"},
	} {
		p := open(t)
		in := approval.Answer{Decision: "answered", Digest: p.view(p.shown).Digest, Fields: okay("x")}
		tc.change(&in)
		v, err := p.AnswerApproval(t.Context(), p.caller, runOf(p.shown), secretOf(p.shown), in)
		refused(t, err, "INVALID_ARGUMENT", tc.says)
		if v.State != approval.Open {
			t.Errorf("%s: the page says %s, want it open", name, v.State)
		}
		calls("MISSING_FIELD")(p)
	}
	p := open(t)
	waits := p.shown
	fills("", okay("x"))(p)
	for _, late := range []struct {
		fields map[string][]string
		late   bool
	}{{okay("x"), false}, {okay("y"), true}, {nil, true}} {
		if v, err := p.fill("", late.fields); err != nil || v.Late != late.late || v.State != approval.Answered {
			t.Errorf("after the answer %v the page says %+v, %v, want late %v", late.fields, v, err, late.late)
		}
	}
	if v := p.decide(waits, "rejected", ""); !v.Late {
		t.Error("a decline after the answer is not said to be late")
	}
	calls("")(p)
	contains(t, string(p.moment(p.shown, "answered").Answer), `"x"`)
	p.shown = waits
	if v, err := p.fill("", okay("y")); err != nil || !v.Late || v.State != approval.Answered {
		t.Errorf("after the step was solved the page says %+v, %v", v, err)
	}
}

// After a client answered its person's question itself, anybody may answer in the end: the step is worth at
// least what was said of its protocol before.
func TestAfterAnAutomaticAnswerAStepIsWorthAtLeastWhatItsProtocolSays(t *testing.T) {
	begins := func(moves ...move) []move {
		return append([]move{calls(toPerson), reflexes(no, "USER_DECLINED")}, moves...)
	}
	for name, tc := range map[string]struct {
		doc       string
		moves     []move
		by, least driver.Provenance
		worth     string
	}{
		"the agent":                   {doc: personDoc, least: driver.AgentReported, by: driver.AgentReported, moves: begins(sends(works, "")), worth: "1 step rests on the agent's word"},
		"somebody on the page":        {doc: personDoc, least: driver.AgentReported, by: driver.LinkHolder, moves: begins(fills("", okay("x")), calls("")), worth: "1 step answered by somebody with the link"},
		"a principal on the page":     {doc: personDoc, least: driver.AgentReported, by: driver.ClientAttested, moves: begins(fills("ada", okay("x")), calls("")), worth: "1 step answered by a person"},
		"a person in a form":          {doc: personDoc, least: driver.AgentReported, by: driver.ClientAttested, moves: begins(over("b"), calls(toPerson), answers(sampled, "")), worth: "1 step answered by a person"},
		"a person's own, on the page": {doc: statedStep, least: driver.LinkHolder, by: driver.LinkHolder, moves: begins(fills("", okay("x")), calls("")), worth: "1 step answered by somebody with the link"},
		"a person's own, in a form":   {doc: statedStep, least: driver.LinkHolder, by: driver.ClientAttested, moves: begins(over("b"), calls(toPerson), answers(sampled, "")), worth: "1 step answered by a person"},
	} {
		t.Run(name, func(t *testing.T) {
			scene{doc: tc.doc, client: formClient, change: hasPage, knobs: []string{asksForm}, moves: append(append([]move{over("a")}, tc.moves...), func(p *play) {
				r := p.state(runOf(p.shown))
				if got := r.Proofs[0].Provenance; got != tc.by || run.Weakest([]driver.Provenance{got, tc.least}) != tc.least {
					p.t.Errorf("the step is %s, want %s, and at least %s", got, tc.by, tc.least)
				}
				chains, _ := protocol.Parse([]byte(tc.doc))
				least := run.Worth(1, []run.Voucher{{Provenance: tc.least}})
				if got := p.setups.present.Worth(drivers.Place{Chain: chains[0]}); got != least {
					p.t.Errorf("the protocol is worth %q, want %q", got, least)
				}
				if got := p.timeline(p.shown).Worth; got != tc.worth {
					p.t.Errorf("the run is worth %q, want %q", got, tc.worth)
				}
			})}.play(t)
		})
	}
}
