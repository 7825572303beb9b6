package forgery_test

import (
	"encoding/json"
	"fmt"
	"strings"
)

// step is a step of a procedure, whichever way the procedure is recorded.
type step struct {
	name, typ string
	// params are the parameters of the challenge, as JSON; values of earlier steps
	// stand in templates.
	params string
	form   []string // the members that the output must have
	// approved says that a person has to approve it first.
	approved bool
	// decides says that the record claims the facts of this step.
	decides bool
	schema  string // of the output, for KAIROS
}

// procedure is what the agent has to follow.
type procedure struct {
	title, text string
	steps       []step
	// unasked is a protocol that accepts anyone's evidence even where KAIROS observes.
	unasked bool
}

var booking = procedure{
	title: "Book a talk", text: "Book the first free half hour of Adam and Betty.",
	steps: []step{
		{
			name: "slot", typ: "mcp", form: []string{"start", "end"},
			params: `{"tool_name":"find_slot","arguments":{"participants":["adam@example.com","betty@example.com"],"duration_minutes":30,"within_days":14}}`,
			schema: `{"type":"object","required":["start","end","participants"],"properties":{"start":{"type":"string"},"end":{"type":"string"},"participants":{"type":"array"}}}`,
		},
		{
			name: "event", typ: "mcp", form: []string{"success", "event_id"}, approved: true, decides: true,
			params: `{"tool_name":"create_event","arguments":{"title":"Talk","participants":["adam@example.com","betty@example.com"],` +
				`"start":"{{ steps.slot.start }}","end":"{{ steps.slot.end }}"},"expected_result":{"success":true}}`,
			schema: `{"type":"object","required":["success","event_id"],"properties":{"success":{"const":true},"event_id":{"type":"string","minLength":1}}}`,
		},
	},
}

func command(name, cmd string, approved bool) step {
	params, _ := json.Marshal(map[string]any{"cmd": cmd, "timeout_seconds": 30})
	return step{name: name, typ: "shell", params: string(params), form: []string{"exit_code"}, approved: approved, decides: true}
}

var (
	checkAndDeploy = procedure{
		title: "Deploy", text: "Check before you deploy.",
		steps: []step{command("check", "sh check.sh", false), command("deploy", "sh deploy.sh", true)},
	}
	deploy  = procedure{title: "Deploy alone", text: "Deploy.", steps: []step{command("deploy", "sh deploy.sh", true)}}
	testRun = procedure{title: "Test", text: "Run the test.", steps: []step{command("test", "sh test.sh", false)}}
)

// protocol is the procedure as KAIROS has it.
func (p procedure) protocol(observed bool) string {
	var doc strings.Builder
	fmt.Fprintf(&doc, "# %s\n\n%s\n", p.title, p.text)
	for _, s := range p.steps {
		c := map[string]any{"type": s.typ, "name": s.name, s.typ: json.RawMessage(s.params)}
		if s.schema != "" {
			c["output_schema"] = json.RawMessage(s.schema)
		}
		if s.approved {
			c["approval_mode"] = "user"
		}
		if s.decides && observed && !p.unasked {
			c["evidence"] = "server"
		}
		challenge, _ := json.MarshalIndent(map[string]any{"challenge": c}, "", "  ")
		fmt.Fprintf(&doc, "\n## %s\n\nDo it.\n\n```json\n%s\n```\n", s.name, challenge)
	}
	return doc.String()
}

// record is one record of a procedure that an agent makes.
type record interface {
	// report submits what the agent says came back of a step; an empty output
	// submits nothing and leaves the step to KAIROS, where that observes.
	report(step, output string)
	// approval submits that the person approved a step, in the agent's words.
	approval(step string)
	// output is what the record has of a step.
	output(step string) string
	// accepted says whether the record counts, by the rule of its kind.
	accepted() bool
}

func (p procedure) step(name string) step {
	for _, s := range p.steps {
		if s.name == name {
			return s
		}
	}
	panic("no step " + name)
}
