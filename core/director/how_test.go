package director_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// taking is an operator who changes the ways of approving that count.
func taking(how ...string) move {
	return func(p *play) {
		s, release := p.setups.Hold()
		release()
		s.How = how
		p.setups.replace(s)
	}
}

func byWay(basis run.Basis) move {
	return func(p *play) {
		p.t.Helper()
		if a := p.state(runOf(p.shown)).Step.Approval; a == nil || a.Basis != basis {
			p.t.Errorf("approval = %+v, want one by %s", a, basis)
		}
	}
}

func TestOnlyTheWaysThatCountApprove(t *testing.T) {
	both := driver.Client{ElicitationForm: true, ElicitationURL: true}
	addresses := driver.Client{ElicitationURL: true}
	how := func(ways string) string {
		return strings.Replace(gatedStep, `"approval_mode":"user"`, `"approval":{"how":[`+ways+`]}`, 1)
	}
	ways := func(list ...string) func(*choices) {
		return func(o *choices) { hasPage(o); o.How = list }
	}
	scenes(t, map[string]scene{
		"a form":                                {doc: gatedStep, client: both, change: ways("form", "page"), moves: []move{calls(toPerson), answers(yes, "", "approved"), byWay(run.BasisForm)}},
		"the server takes the page alone":       {doc: gatedStep, client: both, change: ways("page"), moves: []move{calls(toPerson), asksByURL(true), answers(yes, "WAITING_FOR_USER"), onPage("approved"), calls(""), byWay(run.BasisLink)}},
		"the step takes the page alone":         {doc: how(`"page"`), client: both, change: hasPage, moves: []move{calls(toPerson), asksByURL(true)}},
		"the step takes the form alone":         {doc: how(`"form"`), client: both, change: hasPage, moves: []move{calls(toPerson), asksByURL(false)}},
		"no form, and only a form counts":       {doc: how(`"form"`), client: addresses, change: hasPage, moves: []move{calls("APPROVAL_UNAVAILABLE", "/elicitation/form"), noLinkShown}},
		"nobody to ask, and only a form counts": {doc: how(`"form"`), change: hasPage, moves: []move{calls("APPROVAL_UNAVAILABLE", "counts only by form", "elicitation"), noLinkShown}},
		"a review, where only a form counts":    {doc: how(`"form"`), client: driver.Client{Sampling: true}, change: hasPage, moves: []move{calls("APPROVAL_UNAVAILABLE")}},
		"the agent, where its word counts":      {doc: gatedStep, change: ways("agent"), moves: []move{submits(reports, "", "approved"), byWay(run.BasisAgent)}},
		"the agent, where its word does not":    {doc: how(`"form","page"`), change: func(o *choices) { hasPage(o); o.How = allWays }, moves: []move{submits(reports, "TYPE_MISMATCH")}},
		"forms stop to count meanwhile":         {doc: gatedStep, client: both, change: hasPage, moves: []move{calls(toPerson), taking("page"), answers(yes, "WAITING_FOR_USER", "on the approval page")}},
		"the page stops to count meanwhile": {doc: gatedStep, change: hasPage, moves: []move{
			calls("WAITING_FOR_USER"), taking("form"), func(p *play) {
				if v := p.view(p.shown); v.State == "open" {
					p.t.Errorf("the page can still be answered: %+v", v)
				}
			}, calls("APPROVAL_UNAVAILABLE"),
		}},
		"forms stop to count after one approved": {doc: gatedStep, client: both, change: hasPage, moves: []move{
			calls(toPerson), answers(yes, "", "approved"), taking("page"), sends(works, toPerson), asksByURL(true), solved(), answers(yes, "WAITING_FOR_USER"), onPage("approved"), calls(""), sends(works, ""), solved(driver.AgentReported),
		}},
		"the page stops to count after it approved": {doc: gatedStep, change: hasPage, moves: []move{
			calls("WAITING_FOR_USER"), onPage("approved"), taking("form", "page"), calls(""), taking("form"), sends(works, "APPROVAL_UNAVAILABLE", "does not count any more", "by form"), counted(0),
		}},
		"evidence that was taken before stays": {doc: gatedStep, client: both, moves: []move{
			calls(toPerson), answers(yes, ""), sets("mcp", true), sends(works, "DRIVER_UNAVAILABLE"), taking("page"), sets("mcp", false), calls(""), solved(driver.AgentReported),
		}},
		"no way is left": {doc: how(`"page"`), client: both, change: hasPage, moves: []move{taking("form"), calls("RULES_CONFLICT", "approved only by page", "the server takes form")}},
	})
}

// asksByURL checks whether the last question has a person open an address.
func asksByURL(want bool) move {
	return func(p *play) {
		p.t.Helper()
		if got := strings.Contains(string(p.question.Params), `"mode":"url"`); got != want {
			p.t.Errorf("the question is %s, want an address: %v", p.question.Params, want)
		}
	}
}

// reports is the agent's word that the person approved.
func reports(r *api.StepReply) string { return solveAs(r, "user_input", approves) }

func noLinkShown(p *play) {
	p.t.Helper()
	if p.shown.ApprovalURL != "" {
		p.t.Errorf("a link is shown: %s", p.shown.ApprovalURL)
	}
}

func TestNearMisses(t *testing.T) {
	w := newWorld(t, nil)
	for name, tc := range map[string]struct{ how, says string }{
		"a misspelt way":             {`"from"`, `did you mean "form"?`},
		"the name of a driver":       {`"elicitation"`, "there are agent, form, page, review"},
		"the agent, not taken here":  {`"agent"`, "the step is approved only by agent, and the server takes form or review or page"},
		"a person who has to log in": {`"login"`, "nobody can log in to this server"},
	} {
		doc := strings.Replace(gatedStep, `"approval_mode":"user"`, `"approval":{"how":[`+tc.how+`]}`, 1)
		_, err := w.Mint(t.Context(), w.caller, api.MintRequest{Document: doc, ModelID: "test"})
		if fault.CodeOf(err) != fault.DocumentRefused || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: mint = %v, want %q", name, err, tc.says)
		}
	}
}
