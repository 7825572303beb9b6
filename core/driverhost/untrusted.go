package driverhost

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// The documents that a driver returns have to be JSON. Its texts, which people and
// models read, pass plain.TextWithin and lose the driver's secrets.

// errorCode is what the code of a rejection looks like.
var errorCode = regexp.MustCompile(`^[A-Z][A-Z0-9_]{0,63}$`)

// maxText is how many bytes of one text of a driver are passed on.
const maxText = 64 << 10

func soundValidate(r driver.ValidateResult, text func(string) string) (driver.ValidateResult, error) {
	r.Diagnostics = texts(r.Diagnostics, text)
	if !object(r.Action) {
		return r, unsound("the action of the challenge is not a JSON object")
	}
	return r, documents{"challenge": r.Challenge, "the action of the challenge": r.Action}.check()
}

func soundAdvance(r driver.AdvanceResult, text func(string) string) (driver.AdvanceResult, error) {
	docs := documents{"state": r.State.Data}
	for i := range r.NeedInput {
		in := &r.NeedInput[i]
		in.Description, in.System, in.User = text(in.Description), text(in.System), text(in.User)
		docs["the schema of input "+in.ID], docs["the display of input "+in.ID] = in.Schema, in.Display
		if !object(in.Action) {
			return r, unsound("the action of input " + in.ID + " is not a JSON object")
		}
		docs["the action of input "+in.ID] = in.Action
	}
	switch {
	case r.Accepted != nil:
		docs["proof"], docs["output"] = r.Accepted.Proof, r.Accepted.Output
	case r.Rejected != nil && !errorCode.MatchString(r.Rejected.Code):
		return r, unsound(fmt.Sprintf("the error code %.80q does not match %s", r.Rejected.Code, errorCode))
	case r.Rejected != nil:
		r.Rejected.Message = text(r.Rejected.Message)
	case r.Declined != nil:
		r.Declined.Reason = text(r.Declined.Reason)
	case r.Unavailable != nil:
		r.Unavailable.Reason = text(r.Unavailable.Reason)
	}
	soundLater(r.Pending, r.Unknown, r.NotDone, text)
	return r, docs.check()
}

// soundLater makes the texts fit to be shown of the outcomes that both roles have.
func soundLater(p *driver.Pending, u *driver.Unknown, n *driver.NotDone, text func(string) string) {
	switch {
	case p != nil:
		p.Reason, p.Message = text(p.Reason), text(p.Message)
	case u != nil:
		u.Reason = text(u.Reason)
	case n != nil:
		n.Reason = text(n.Reason)
	}
}

func soundRender(r driver.RenderResult, text func(string) string) (driver.RenderResult, error) {
	docs := documents{}
	switch {
	case r.ClientRequest != nil:
		docs["params"] = r.ClientRequest.Params
	case r.AgentChallenge != nil:
		r.AgentChallenge.Description = text(r.AgentChallenge.Description)
		docs["display"] = r.AgentChallenge.Display
	case r.Answer != nil:
		docs["answer"] = r.Answer.Value
	case r.Unavailable != nil:
		r.Unavailable.Reason = text(r.Unavailable.Reason)
	case r.ClientReview != nil:
		r.ClientReview.Reason = text(r.ClientReview.Reason)
	case r.Invalid != nil:
		r.Invalid.Diagnostics = texts(r.Invalid.Diagnostics, text)
	case r.Elsewhere != nil:
		r.Elsewhere.Message = text(r.Elsewhere.Message)
	}
	soundLater(r.Pending, r.Unknown, r.NotDone, text)
	return r, docs.check()
}

func soundPreview(r driver.PreviewResult, text func(string) string) (driver.PreviewResult, error) {
	docs := documents{}
	switch {
	case r.Plan != nil && (strings.TrimSpace(r.Plan.Text) == "" || len(r.Plan.Data) == 0):
		return r, unsound("a plan needs a text and data")
	case r.Plan != nil && r.Plan.Effect == driver.EffectPure:
		return r, unsound("a plan has the effect reads or changes")
	case r.Plan != nil && !object(r.Plan.Action):
		return r, unsound("the plan's action is not a JSON object")
	case r.Plan != nil:
		r.Plan.Text = text(r.Plan.Text)
		docs["the plan's data"], docs["the plan's action"] = r.Plan.Data, r.Plan.Action
	case r.Propose != nil:
		r.Propose.Description = text(r.Propose.Description)
		docs["the proposal's schema"] = r.Propose.Schema
	case r.Invalid != nil:
		r.Invalid.Diagnostics = texts(r.Invalid.Diagnostics, text)
	case r.Unavailable != nil:
		r.Unavailable.Reason = text(r.Unavailable.Reason)
	}
	return r, docs.check()
}

func soundInterpret(r driver.InterpretResult, text func(string) string) (driver.InterpretResult, error) {
	docs := documents{}
	switch {
	case r.Answer != nil:
		docs["answer"] = r.Answer.Value
	case r.Declined != nil:
		r.Declined.Reason = text(r.Declined.Reason)
	case r.Invalid != nil:
		r.Invalid.Diagnostics = texts(r.Invalid.Diagnostics, text)
	case r.Unavailable != nil:
		r.Unavailable.Reason = text(r.Unavailable.Reason)
	case r.Missing != nil:
		r.Missing.Reason = text(r.Missing.Reason)
	case r.Dismissed != nil:
		r.Dismissed.Reason = text(r.Dismissed.Reason)
	}
	return r, docs.check()
}

// object reports whether a document is a JSON object with a member, or not there.
func object(raw json.RawMessage) bool {
	var members map[string]json.RawMessage
	return len(raw) == 0 || json.Unmarshal(raw, &members) == nil && len(members) > 0
}

// documents are what has to be JSON where it is there at all, by what it is.
type documents map[string]json.RawMessage

func (d documents) check() error {
	for what, doc := range d {
		if len(doc) > 0 && !json.Valid(doc) {
			return unsound(what + " is not JSON")
		}
	}
	return nil
}

func unsound(why string) error { return status.Error(codes.Internal, "its result is unsound: "+why) }

func texts(found []driver.Diagnostic, text func(string) string) []driver.Diagnostic {
	for i := range found {
		found[i].Message = text(found[i].Message)
	}
	return found
}

// shown makes a text of the driver fit to be shown, without its secrets.
func (r *redactor) shown(text string) string { return r.hide(plain.TextWithin(text, maxText)) }
