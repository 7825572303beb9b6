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
