package director_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// paying is a step that pays, as its driver states it.
var paying = strings.Replace(plainStep, `"tool_name":"go"`, `"tool_name":"go","action":{"tool":"pay"}`, 1)

// ruledWorld is a world with these rules, whose driver mcp declares what it states, and with a
// judge of its own to which no route leads.
func ruledWorld(rules ...string) func(*testing.T) *world {
	return func(t *testing.T) *world {
		w := newWorld(t, nil)
		d := descriptors["mcp"]
		d.ActionSchema = json.RawMessage(`{"properties":{"tool":{"type":"string"},"server":{"type":"string"}}}`)
		oracle := descriptors["sampling"]
		oracle.Name, oracle.Handles, oracle.Needs, oracle.Features = "oracle", []string{driver.KindJudge}, nil, []string{driver.FeatureModel}
		w.describes(d, oracle).capabilities["oracle"] = &seer{sees: `{"satisfied":true,"reason":"it shows"}`, claims: driver.ModelGenerated}
		w.setups.replace(w.ruled(w.under(shipped()), rules...))
		return w
	}
}

// The action of a step is known when its driver asks for something, and then the rules about it hold.
func TestRulesHoldForWhatAStepDoes(t *testing.T) {
	typed := `{"action":"accept","content":{"confirmation":"approved","phrase":"act"}}`
	looking := strings.Replace(paying, `"tool":"pay"`, `"tool":"look"`, 1)
	unknown := strings.Replace(paying, `"action":{"tool":"pay"}`, `"action":{}`, 1)
	judged := func(p *play) {
		p.t.Helper()
		if m := p.moment(p.shown, "judged"); m.Via != "oracle" {
			p.t.Errorf("judged by %q, want the driver that the rule names", m.Via)
		}
	}
	pays := "{server: shop, tool: pay, approval: {phrase: true}}"
	scenes(t, map[string]scene{
		"an approval with the step's name typed": {doc: paying, client: formClient, world: ruledWorld(pays), moves: []move{
			calls(toPerson), answers(yes, toPerson), answers(typed, ""), sends(works, ""), solved(driver.AgentReported),
		}},
		"a rule is more than the step's word": {doc: with(paying, `"approval_mode":"auto"`), client: formClient, world: ruledWorld(pays), moves: []move{
			sends(works, toPerson), answers(typed, ""),
		}},
		"an action that is not said":  {doc: unknown, client: formClient, world: ruledWorld(pays), moves: []move{calls(toPerson)}},
		"another action":              {doc: looking, client: formClient, world: ruledWorld(pays), moves: []move{sends(works, ""), solved(driver.AgentReported)}},
		"evidence of the server only": {doc: paying, world: ruledWorld("{tool: pay, evidence: server}"), moves: []move{sends(works, "EVIDENCE_NOT_ACCEPTED"), counted(0)}},
		// The next call judges evidence of which the action was stated in an earlier one.
		"a judge, also in a later call": {doc: paying, world: ruledWorld("{tool: pay, judge: oracle}"), moves: []move{
			sets("mcp", true), sends(works, "DRIVER_UNAVAILABLE"), sets("mcp", false), calls(""), solved(driver.AgentReported), judged,
		}},
		"a judge of a type": {doc: looking, world: ruledWorld("{type: mcp, judge: oracle}"), moves: []move{sends(works, ""), solved(driver.AgentReported), judged}},
	})
}

// ruling is an operator who changes the rules.
func ruling(entries ...string) move {
	return func(p *play) {
		p.t.Helper()
		s, release := p.setups.Hold()
		release()
		p.setups.replace(p.ruled(s, entries...))
	}
}

// The demands of the operator hold for steps that were open before, unless something was done at them.
func TestRulesHoldForRunsThatAreUnderWay(t *testing.T) {
	typed := `{"action":"accept","content":{"confirmation":"approved","phrase":"act"}}`
	changed := "what is demanded of it was changed"
	scenes(t, map[string]scene{
		"an approval is demanded now": {doc: paying, client: formClient, world: ruledWorld(), moves: []move{
			calls("MISSING_FIELD"), ruling("{tool: pay, approval: {}}"), sends(works, toPerson), solved(), answers(yes, ""), sends(works, ""), solved(driver.AgentReported),
		}},
		"a phrase is demanded of what was approved": {doc: paying, client: formClient, world: ruledWorld("{approval: {}}"), moves: []move{
			calls(toPerson), answers(yes, ""), ruling("{approval: {phrase: true}}"), sends(works, toPerson), answers(yes, toPerson), answers(typed, ""), sends(works, ""),
		}},
		"another phrase is demanded of what was approved": {doc: paying, client: formClient, world: ruledWorld("{approval: {phrase: true}}"), moves: []move{
			calls(toPerson), answers(typed, ""), ruling("{approval: {phrase: ship it}}"), sends(works, toPerson, "type exactly: ship it"), answers(typed, toPerson),
			answers(strings.Replace(typed, `"act"`, `"ship it"`, 1), ""), sends(works, ""),
		}},
		"a phrase is demanded of what is asked": {doc: paying, client: formClient, world: ruledWorld("{approval: {}}"), moves: []move{
			calls(toPerson), ruling("{approval: {phrase: true}}"), answers(yes, "APPROVAL_UNAVAILABLE", "what has to be typed was changed"), calls(toPerson), answers(typed, ""),
		}},
		"an action is ruled after it was approved": {doc: paying, client: formClient, world: ruledWorld("{approval: {how: [form, review]}}"), moves: []move{
			calls(toPerson), answers(yes, ""), ruling("{tool: pay, approval: {how: [review]}}"), sends(works, "APPROVAL_UNAVAILABLE", changed), counted(0),
		}},
		"nothing is taken back that was done": {doc: paying, client: formClient, world: ruledWorld(), moves: []move{
			sets("mcp", true), sends(works, "DRIVER_UNAVAILABLE"), ruling("{tool: pay, approval: {}}"), sets("mcp", false), calls(""), solved(driver.AgentReported),
		}},
		"what has to be seen is demanded of what was done": {doc: paying, world: ruledWorld(), moves: []move{
			sets("mcp", true), sends(works, "DRIVER_UNAVAILABLE"), ruling("{type: mcp, evidence: server}"), sets("mcp", false), calls("EVIDENCE_NOT_ACCEPTED"),
		}},
		"a rule that is gone asks for nothing": {doc: paying, client: formClient, world: ruledWorld("{tool: pay, approval: {}}"), moves: []move{
			calls(toPerson), answers(yes, ""), ruling(), sends(works, ""), solved(driver.AgentReported),
		}},
	})
}

// What is done may be known only from the plan of a driver, when the arguments are filled in:
// the rules about it hold before it is done.
func TestRulesHoldForWhatADriverPlans(t *testing.T) {
	typed := `{"action":"accept","content":{"confirmation":"approved","phrase":"act"}}`
	planning := func(plans string, rules ...string) func(*testing.T) *world {
		return func(t *testing.T) *world {
			w, d := withDoer(t, driver.EffectReads)
			d.plans = plans
			desc, oracle := doerDescriptor, descriptors["sampling"]
			desc.ActionSchema = json.RawMessage(`{"properties":{"tool":{"type":"string"}}}`)
			oracle.Name, oracle.Handles, oracle.Needs, oracle.Features = "oracle", []string{driver.KindJudge}, nil, []string{driver.FeatureModel}
			described := w.describes(desc, oracle).capabilities
			described["doer"], described["oracle"] = d, &seer{sees: `{"satisfied":true,"reason":"it shows"}`, claims: driver.ModelGenerated}
			w.setups.replace(w.ruled(w.under(doerTree("")), rules...))
			return w
		}
	}
	const pays = `{"tool":"pay"}`
	byForm := with(plainStep, `"evidence":"server","approval":{"how":["form"]}`)
	scenes(t, map[string]scene{
		"a phrase": {doc: plainStep, client: formClient, world: planning(pays, "{tool: pay, approval: {phrase: true}}"), moves: []move{
			allowed, calls(toPerson, "act on earth", "type exactly: act"), did(0), answers(yes, toPerson), did(0), answers(typed, ""), calls(""), did(1), solved(driver.ServerObserved),
		}},
		"another action": {doc: plainStep, client: formClient, world: planning(`{"tool":"look"}`, "{tool: pay, approval: {}}"), moves: []move{allowed, calls(""), did(1)}},
		"another action than its input states": {doc: paying, client: formClient, world: planning(`{"tool":"look"}`, "{tool: pay, approval: {how: [form], phrase: true}}"), moves: []move{
			allowed, calls(toPerson, "type exactly: act"), did(0), answers(typed, ""), calls(""), did(1),
		}},
		"an action that it could not read": {doc: plainStep, client: formClient, world: planning(`{"tool":{"unparsed":"?"}}`, "{tool: pay, approval: {}}"), moves: []move{
			allowed, calls(toPerson), did(0),
		}},
		"an action of which it says nothing": {doc: plainStep, client: formClient, world: planning("", "{tool: pay, approval: {}}"), moves: []move{allowed, calls(toPerson), did(0)}},
		"a judge": {doc: plainStep, client: formClient, world: planning(pays, "{tool: pay, judge: oracle}"), moves: []move{
			allowed, calls(""), did(1), func(p *play) {
				if m := p.moment(p.shown, "judged"); m.Via != "oracle" {
					p.t.Errorf("judged by %q", m.Via)
				}
			},
		}},
		"what nobody can meet": {doc: byForm, client: formClient, world: planning(pays, "{tool: pay, approval: {how: [page]}}"), moves: []move{
			allowed, calls("RULES_CONFLICT", "rules[0], line 2"), did(0), counted(0),
		}},
		// It is planned while no rule is about it, and a rule comes before it is done.
		"a rule that comes after the plan": {doc: with(plainStep, `"evidence":"server","approval_mode":"user"`), client: formClient, world: planning(pays), moves: []move{
			allowed, calls(toPerson, "act on earth"), answers(yes, ""), ruling("{tool: pay, approval: {phrase: true}}"), calls(toPerson, "type exactly: act"), did(0), answers(typed, ""), calls(""), did(1),
		}},
	})
}
