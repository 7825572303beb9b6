package input

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// The decisions of an approval: the only words that its form takes.
const (
	SaidApproved = "approved"
	SaidRejected = "rejected"
)

// ApprovalQuestion is what an approval in front of an input is about.
type ApprovalQuestion struct {
	Evidence driver.Input // that is approved
	Digest   string       // of the inputs as shown
	Phrase   string       // to type; empty: none
	Early    *run.Early   // work that came before the approval
	Done     *run.Done    // what a driver did for the step before; nil: nothing
	Plan     *run.Plan    // of the driver that will do it; nil: the agent or a model does
	// Declined tells of an earlier decline of the same; empty: there is none.
	Declined string
	// Short asks with a form that shows only how what is approved begins and ends, as for
	// what is too long for any form.
	Short bool
	// own: the approval is the person's own answer, and nothing is done with it.
	Own bool
}

// WrongPhrase says what is wrong with what was typed; empty: nothing, or
// nothing had to be.
func WrongPhrase(want, typed string) string {
	if want == "" || strings.TrimSpace(typed) == want {
		return ""
	}
	return fmt.Sprintf("To approve, type exactly: %s", want)
}

// ApprovalForm is the form of an approval. It has no default: a client that
// fills in defaults must not approve anything.
var ApprovalForm = json.RawMessage(`{"type":"object","properties":{"confirmation":{"type":"string",` +
	`"title":"Your decision","description":"approved: do it; rejected: do not do it","enum":["approved","rejected"]}},` +
	`"required":["confirmation"],"additionalProperties":false}`)

// approvalSchemaWith is approvalSchema where a phrase has to be typed to approve.
// The phrase is in no part of it that a client could fill in by itself.
func approvalSchemaWith(phrase string) json.RawMessage {
	if phrase == "" {
		return ApprovalForm
	}
	b, err := json.Marshal(map[string]any{
		"type": "object", "required": []string{"confirmation"}, "additionalProperties": false,
		"properties": map[string]any{
			"confirmation": map[string]any{
				"type": "string", "title": "Your decision", "description": "approved: do it; rejected: do not do it", "enum": []string{SaidApproved, SaidRejected},
			},
			"phrase": map[string]any{"type": "string", "title": "To approve, type the phrase that the question names", "maxLength": 400},
		},
	})
	if err != nil {
		return ApprovalForm // unreachable: only texts
	}
	return b
}

// Approval asks for a decision on exactly the evidence input that follows. Its
// words come from the protocol and the challenge, never from a model alone:
// values of earlier steps stand in it as quoted data.
func Approval(k *Task, q ApprovalQuestion) driver.Input {
	if q.Own {
		return answerInput(k, q)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Approve step %d of %d, %q, of the protocol %q?\n", k.Where.Index, k.Where.Count, k.Where.Label, k.Where.Protocol)
	switch {
	case q.Plan != nil:
		fmt.Fprintf(&b, "KAIROS will do exactly this itself (driver %s):\n%s\n", q.Plan.Driver, Quote(q.Plan.Text))
	case len(q.Evidence.Display) > 0:
		fmt.Fprintf(&b, "It will be done with %s: %s\n", q.Evidence.Type, plain.Clip(api.Readable(q.Evidence.Display), maxShown))
	}
	if q.Evidence.User != "" && q.Plan == nil {
		fmt.Fprintf(&b, "What is asked for (values in it are data from earlier steps):\n%s\n", Quote(q.Evidence.User))
	}
	system := ""
	if s := k.Common.Sampling.Sound(); s != nil && s.System != "" && q.Plan == nil {
		system = q.Evidence.System
		fmt.Fprintf(&b, "What a model is told besides, as the step words it:\n%s\n", Quote(system))
	}
	if q.Declined != "" {
		fmt.Fprintf(&b, "%s\n", plain.Text(q.Declined))
	}
	if q.Phrase != "" {
		fmt.Fprintf(&b, "To approve, type exactly: %s\n", q.Phrase)
	}
	fmt.Fprintf(&b, "%s Digest of what you approve: %s", DoneBefore(q.Early, q.Done), q.Digest[:16])
	whole := b.String()
	if q.short(len(whole), system) {
		return approvalOf(q, shortened(k, q, system), system)
	}
	return approvalOf(q, whole, system)
}

// answerInput is approvalInput where the approval is a person's own answer: the
// question is the step's, and nothing is done with it.
func answerInput(k *Task, q ApprovalQuestion) driver.Input {
	var b strings.Builder
	fmt.Fprintf(&b, "Step %d of %d, %q, of the protocol %q asks you:\n%s\n", k.Where.Index, k.Where.Count, k.Where.Label, k.Where.Protocol, Quote(q.Evidence.Description))
	if q.Phrase != "" {
		fmt.Fprintf(&b, "To approve, type exactly: %s\n", q.Phrase)
	}
	fmt.Fprintf(&b, "Only your own answer counts. Digest of what you approve: %s", q.Digest[:16])
	whole := b.String()
	if q.short(len(whole), "") {
		return approvalOf(q, shortened(k, q, ""), "")
	}
	return approvalOf(q, whole, "")
}

// short reports whether no form holds the whole question.
func (q ApprovalQuestion) short(words int, system string) bool {
	long := max(words, len(q.Evidence.Display), len(q.Evidence.User), len(q.Evidence.Description), len(system))
	if q.Plan != nil {
		long = max(long, len(q.Plan.Text))
	}
	return q.Short || long > maxShown
}

// ReadMark stands in a question for the address of the page that shows the whole of it
// and takes no answer. The director puts the address there.
const ReadMark = "<where to read the whole>"

// shortened is the question with the beginning and the end of what is approved, its length and
// whole digest, and where to read the rest. A person is asked in the same way, however long it is.
func shortened(k *Task, q ApprovalQuestion, system string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Approve step %d of %d, %q, of the protocol %q?\n", k.Where.Index, k.Where.Count, plain.Clip(k.Where.Label, 200), plain.Clip(k.Where.Protocol, 200))
	fmt.Fprintf(&b, "This form does not show all that you approve. Read the whole before you answer: %s\n", ReadMark)
	part := func(title, text string) {
		text = strings.TrimSpace(text)
		if text != "" {
			fmt.Fprintf(&b, "%s (%d bytes):\n%s\n", title, len(text), Quote(ends(text)))
		}
	}
	switch {
	case q.Own:
		part("What the step asks you", q.Evidence.Description)
	case q.Plan != nil:
		part("KAIROS will do this itself (driver "+q.Plan.Driver+")", q.Plan.Text)
	default:
		part("It will be done with "+q.Evidence.Type, api.Readable(q.Evidence.Display))
		part("What is asked for", q.Evidence.User)
		part("What a model is told besides", system)
	}
	if q.Declined != "" {
		fmt.Fprintf(&b, "%s\n", plain.Text(plain.Clip(q.Declined, 500)))
	}
	if q.Phrase != "" {
		fmt.Fprintf(&b, "To approve, type exactly: %s\n", q.Phrase)
	}
	if !q.Own {
		fmt.Fprintf(&b, "%s ", DoneBefore(q.Early, q.Done))
	}
	fmt.Fprintf(&b, "Digest of what you approve: %s", q.Digest)
	return b.String()
}

// ends is a long text with its middle left out, which the text says.
func ends(text string) string {
	const each = 400
	runes := []rune(text)
	if len(runes) <= 3*each {
		return text
	}
	return fmt.Sprintf("%s\n[ %d characters are left out here ]\n%s", string(runes[:each]), len(runes)-2*each, string(runes[len(runes)-each:]))
}

// DoneBefore tells a person whether anything may have been done before they
// approve.
func DoneBefore(early *run.Early, done *run.Done) string {
	switch {
	case done != nil:
		times := "once"
		if done.Times > 1 {
			times = fmt.Sprintf("%d times", done.Times)
		}
		return fmt.Sprintf("KAIROS has done this step %s already (driver %s), and the last result was refused at %s. If you approve, it is done again.",
			times, done.Driver, done.Last.UTC().Format(time.RFC3339))
	case early == nil:
		return "Nothing is done before you approve."
	}
	return fmt.Sprintf("Work for this step was submitted before approval, at %s, so it may have been done already. It is not counted: only what is done after you approve is.",
		early.First.UTC().Format(time.RFC3339))
}

func approvalOf(q ApprovalQuestion, description, system string) driver.Input {
	evidence := q.Evidence
	return driver.Input{
		ID: driver.KindApproval, Kind: driver.KindApproval, Description: description, Schema: approvalSchemaWith(q.Phrase), System: system, User: evidence.User,
		Type: evidence.Type, Display: evidence.Display, Approval: driver.ApprovalUser, Person: true,
	}
}

// maxShown is how many bytes of what will be done a form shows. A client that fails at a form
// of more than maxPlain may have failed at its length.
const (
	maxShown = 32 << 10
	maxPlain = 4 << 10
)

// MayBeTooLong reports whether a client that fails at the question may take a shorter one.
func MayBeTooLong(in driver.Input) bool { return len(in.Description) > maxPlain }

func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return ""
	}
	return plain.Clip(b.String(), maxShown)
}

// Quote sets off a text of others from ours, line by line.
func Quote(s string) string {
	return "> " + strings.ReplaceAll(plain.Text(plain.Clip(strings.TrimSpace(s), maxShown)), "\n", "\n> ")
}

// Typed is what was typed beside an approval.
func Typed(value json.RawMessage) string {
	var v struct {
		Phrase string `json:"phrase"`
	}
	_ = json.Unmarshal(value, &v) // nothing typed, then
	return v.Phrase
}

// Approves reports whether a value approves: only this exact word does.
func Approves(value json.RawMessage) bool {
	var v struct {
		Confirmation string `json:"confirmation"`
	}
	return json.Unmarshal(value, &v) == nil && v.Confirmation == "approved"
}

// settleApproval: only the one word approves, and only with the phrase.
func settleApproval(_ *Task, c Setting, a driver.Answer) (Settlement, error) {
	if !Approves(a.Value) {
		return Settlement{Declined: true}, nil
	}
	if wrong := WrongPhrase(c.Phrase, Typed(a.Value)); wrong != "" {
		return Settlement{Refused: "the approval does not count: " + wrong, Again: []driver.Diagnostic{driver.Problem("/content/phrase", wrong)}}, nil
	}
	return Settlement{}, nil
}

// NobodyApproves is the error where no route is left to an approval that counts in these ways.
func NobodyApproves(step int, how []string, troubles string) *fault.Error {
	if troubles != "" {
		return fault.New(fault.ApprovalUnavailable, "Step %d needs a person's approval, which could not be obtained%s. Do not do the step's work.", step, troubles)
	}
	var instead []string
	if slices.Contains(how, driver.ByPage) {
		instead = append(instead, "tell the operator to give the server an approval page (serve --page or --http, or approval.listen)")
	}
	if slices.Contains(how, driver.ByForm) {
		instead = append(instead, "tell the person to continue the run with a client that offers elicitation")
	}
	said := fmt.Sprintf("Step %d needs a person's approval before anybody acts, and nobody can be asked through this client. Do not do the step's work. It counts only by %s",
		step, strings.Join(how, " or "))
	return fault.New(fault.ApprovalUnavailable, "%s", plain.Sentences(said, strings.Join(instead, ", or ")))
}
