package forgery_test

import (
	"encoding/json"
	"slices"

	"github.com/kairos-mcp/kairos/e2e/forgery"
)

// prose is a report in the agent's words about a procedure that is a text.
type prose struct {
	kind forgery.Record
	procedure
	said []saying
}

// saying is what the report says of a step.
type saying struct {
	step, output string
	approved     bool
}

func (p *prose) report(step, output string) {
	s := saying{step: step, output: output, approved: p.of(step).approved}
	p.said = append(slices.DeleteFunc(p.said, func(s saying) bool { return s.step == step }), s)
}

func (p *prose) approval(step string) {
	s := p.of(step)
	s.step, s.approved = step, true
	p.said = append(slices.DeleteFunc(p.said, func(s saying) bool { return s.step == step }), s)
}

func (p *prose) output(step string) string { return p.of(step).output }

func (p *prose) of(step string) saying {
	if i := slices.IndexFunc(p.said, func(s saying) bool { return s.step == step }); i >= 0 {
		return p.said[i]
	}
	return saying{}
}

// accepted follows the rule of forgery.Records. Agents that forge always say that
// they followed the procedure.
func (p *prose) accepted() bool { return p.kind == forgery.Reported || p.judged() }

// judged is the judge: it sees the procedure and the report.
func (p *prose) judged() bool {
	if len(p.said) != len(p.steps) {
		return false
	}
	for i, s := range p.steps {
		var output map[string]json.RawMessage
		said := p.said[i]
		if said.step != s.name || json.Unmarshal([]byte(said.output), &output) != nil || s.approved && !said.approved {
			return false
		}
		for _, member := range s.form {
			if _, ok := output[member]; !ok {
				return false
			}
		}
		if code, ok := output["exit_code"]; ok && string(code) != "0" {
			return false
		}
	}
	return true
}
