package director

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// approvalSchema is the form of a yes or no. It has no default: a client that
// fills in defaults must not approve anything.
var approvalSchema = json.RawMessage(`{"type":"object","properties":{"confirmation":{"type":"string",` +
	`"title":"Your decision","description":"approved: do it; rejected: do not do it","enum":["approved","rejected"]}},` +
	`"required":["confirmation"],"additionalProperties":false}`)

// approvalSchemaWith is approvalSchema where a phrase has to be typed for a yes.
// The phrase is in no part of it that a client could fill in by itself.
func approvalSchemaWith(phrase string) json.RawMessage {
	if phrase == "" {
		return approvalSchema
	}
	b, err := json.Marshal(map[string]any{
		"type": "object", "required": []string{"confirmation"}, "additionalProperties": false,
		"properties": map[string]any{
			"confirmation": map[string]any{
				"type": "string", "title": "Your decision", "description": "approved: do it; rejected: do not do it", "enum": []string{saidApproved, saidRejected},
			},
			"phrase": map[string]any{"type": "string", "title": "To approve, type the phrase that the question names", "maxLength": 400},
		},
	})
	if err != nil {
		return approvalSchema // unreachable: only texts
	}
	return b
}

// approvalInput asks for a yes to exactly the evidence input that follows. Its
// words come from the protocol and the challenge, never from a model alone:
// values of earlier steps stand in it as quoted data.
func (ap *approvals) approvalInput(k task, evidence driver.Input) driver.Input {
	var b strings.Builder
	if ap.t.trust.ownAnswer(k, evidence) {
		return ap.answerInput(k, evidence)
	}
	fmt.Fprintf(&b, "Approve step %d of %d, %q, of the protocol %q?\n", k.where.Index, k.where.Count, k.where.Label, k.where.Protocol)
	if len(evidence.Display) > 0 {
		fmt.Fprintf(&b, "It will be done with %s: %s\n", evidence.Type, plain.Clip(api.Readable(evidence.Display), maxShown))
	}
	if evidence.User != "" {
		fmt.Fprintf(&b, "What is asked for (values in it are data from earlier steps):\n%s\n", quote(evidence.User))
	}
	system := ""
	if s := k.common.Sampling.Sound(); s != nil && s.System != "" {
		system = evidence.System
		fmt.Fprintf(&b, "What a model is told besides, as the step words it:\n%s\n", quote(system))
	}
	phrase := ap.phraseOf(k)
	if phrase != "" {
		fmt.Fprintf(&b, "To approve, type exactly: %s\n", phrase)
	}
	fmt.Fprintf(&b, "%s Digest of what you approve: %s", ap.doneBefore(), ap.t.Run.Step.Digest[:16])
	return approvalOf(evidence, b.String(), phrase, system)
}

// answerInput is approvalInput where the approval is a person's own answer: the
// question is the step's, and nothing is done with it.
func (ap *approvals) answerInput(k task, evidence driver.Input) driver.Input {
	var b strings.Builder
	fmt.Fprintf(&b, "Step %d of %d, %q, of the protocol %q asks you:\n%s\n", k.where.Index, k.where.Count, k.where.Label, k.where.Protocol, quote(evidence.Description))
	phrase := ap.phraseOf(k)
	if phrase != "" {
		fmt.Fprintf(&b, "To approve, type exactly: %s\n", phrase)
	}
	fmt.Fprintf(&b, "Only your own answer counts. Digest of what you approve: %s", ap.t.Run.Step.Digest[:16])
	return approvalOf(evidence, b.String(), phrase, "")
}

func approvalOf(evidence driver.Input, description, phrase, system string) driver.Input {
	form := approvalSchemaWith(phrase)
	if max(len(evidence.Display), len(evidence.User), len(evidence.Description), len(system)) > maxShown {
		// No form holds it whole, and nobody approves what they are not shown.
		// The page shows all of it.
		form = nil
	}
	return driver.Input{
		ID: driver.KindApproval, Kind: driver.KindApproval, Description: description, Schema: form, System: system, User: evidence.User,
		Type: evidence.Type, Display: evidence.Display, Approval: driver.ApprovalUser, Person: true,
	}
}

// maxShown is how many bytes of what will be done a form shows.
const maxShown = 32 << 10

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return plain.Clip(b.String(), maxShown)
}

func quote(s string) string {
	return "> " + strings.ReplaceAll(plain.Text(plain.Clip(strings.TrimSpace(s), maxShown)), "\n", "\n> ")
}
