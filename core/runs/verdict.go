package runs

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// CoreDriver is run.CoreDriver.
const CoreDriver = run.CoreDriver

// NotJudged begins the reason of a judgement that nobody gave.
const NotJudged = "not judged: "

// Verdict fills in what the run proves.
func (c *Change) Verdict(reply *api.AttestReply) {
	reply.RunID = string(c.Run.ID)
	reply.ProofHash = c.Run.ProofHash()
	for i := len(c.Run.Proofs); i < len(c.Chain.Steps); i++ {
		reply.MissingSteps = append(reply.MissingSteps, protocol.URI(c.Chain.Steps[i].UUID))
	}
	worth := plain.Capital(c.Run.Worth())
	err := c.Run.VerifyRead()
	reply.Verified = err == nil && len(reply.MissingSteps) == 0
	switch {
	case err != nil:
		reply.Message = "The proof chain is broken: " + err.Error() + "."
	case !reply.Verified:
		reply.Message = plain.Sentences(worth)
	default:
		reply.Message = plain.Sentences(worth, "The proof chain is whole")
	}
	for i, ev := range c.Run.Evidence {
		if ev.Failed {
			reply.Message = plain.Sentences(reply.Message, fmt.Sprintf("The evidence of step %d failed, which its challenge does not forbid (required: false).", i+1))
		}
		if slices.ContainsFunc(ev.Answers, func(a driver.Answer) bool { _, unjudged := Unjudged(&a); return unjudged }) {
			reply.Message = plain.Sentences(reply.Message, fmt.Sprintf("No verdict was given on the result of step %d, which was to be judged.", i+1))
		}
	}
}

// Unjudged says why the answer to a judge's input holds no verdict, if it
// is one of those.
func Unjudged(a *driver.Answer) (why string, unjudged bool) {
	if a == nil || a.InputID != driver.KindJudge || a.Via != CoreDriver {
		return "", false
	}
	var v driver.JudgeValue
	if json.Unmarshal(a.Value, &v) != nil || v.Reason == "" { // null is left of what was redacted
		return "its reason was erased", true
	}
	return strings.TrimPrefix(v.Reason, NotJudged), true
}

// Scope is what the templates of the open step may refer to.
func Scope(r run.Run, chain protocol.Chain) protocol.Scope {
	s := protocol.Scope{Input: r.Input, Steps: make(map[string]json.RawMessage, len(r.Evidence))}
	for i, ev := range r.Evidence {
		s.Steps[chain.Steps[i].Name] = ev.Output
	}
	return s
}
