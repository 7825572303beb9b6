package driverrpc

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/driverpb"
)

// conversion carries the first error of a conversion between proto and Go
// types, so that a message converts field by field without a check at each.
type conversion struct{ err error }

func (c *conversion) fail(format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf(format, args...)
	}
}

// The enums, Go value to wire value. UNSPECIFIED is in a table only where the
// Go type has a meaningful zero; anywhere else it is an unknown value.
var (
	roles = map[driver.Role]driverpb.Role{
		driver.RoleChallenge:  driverpb.Role_ROLE_CHALLENGE,
		driver.RoleCapability: driverpb.Role_ROLE_CAPABILITY,
	}
	effects = map[driver.Effect]driverpb.Effect{
		driver.EffectPure:    driverpb.Effect_EFFECT_PURE,
		driver.EffectReads:   driverpb.Effect_EFFECT_READS,
		driver.EffectChanges: driverpb.Effect_EFFECT_EFFECTS,
	}
	transports = map[driver.Transport]driverpb.Transport{
		driver.TransportGRPC: driverpb.Transport_TRANSPORT_UNSPECIFIED,
		driver.TransportExec: driverpb.Transport_TRANSPORT_EXEC,
	}
	approvals = map[driver.ApprovalMode]driverpb.ApprovalMode{
		"":                  driverpb.ApprovalMode_APPROVAL_MODE_UNSPECIFIED,
		driver.ApprovalAuto: driverpb.ApprovalMode_APPROVAL_MODE_AUTO,
		driver.ApprovalUser: driverpb.ApprovalMode_APPROVAL_MODE_USER,
	}
	severities = map[driver.Severity]driverpb.Severity{
		driver.SeverityError:   driverpb.Severity_SEVERITY_ERROR,
		driver.SeverityWarning: driverpb.Severity_SEVERITY_WARNING,
	}
	escapings = map[driver.Escaping]driverpb.Escaping{
		driver.EscapeText:  driverpb.Escaping_ESCAPING_TEXT,
		driver.EscapeJSON:  driverpb.Escaping_ESCAPING_JSON,
		driver.EscapeShell: driverpb.Escaping_ESCAPING_SHELL,
		driver.EscapeQuote: driverpb.Escaping_ESCAPING_QUOTE,
	}
	provenances = map[driver.Provenance]driverpb.Provenance{
		driver.AgentReported:  driverpb.Provenance_PROVENANCE_AGENT_REPORTED,
		driver.ModelGenerated: driverpb.Provenance_PROVENANCE_MODEL_GENERATED,
		driver.LinkHolder:     driverpb.Provenance_PROVENANCE_LINK_HOLDER,
		driver.ClientAttested: driverpb.Provenance_PROVENANCE_CLIENT_ATTESTED,
		driver.ServerObserved: driverpb.Provenance_PROVENANCE_SERVER_OBSERVED,
	}
)

// toEnum converts a Go enum value to the wire.
func toEnum[G ~string, W ~int32](c *conversion, table map[G]W, g G) W {
	w, ok := table[g]
	if !ok {
		c.fail("unknown %T %q", g, g)
	}
	return w
}

// fromEnum converts an enum value of the wire to Go.
func fromEnum[G ~string, W ~int32](c *conversion, table map[G]W, w W) G {
	for g, have := range table {
		if have == w {
			return g
		}
	}
	var zero G
	c.fail("unknown %T %d on the wire", zero, int32(w))
	return zero
}

// fromTransport knows the two ways to say gRPC.
func fromTransport(c *conversion, t driverpb.Transport) driver.Transport {
	if t == driverpb.Transport_TRANSPORT_GRPC {
		return driver.TransportGRPC
	}
	return fromEnum(c, transports, t)
}

func toUint32(c *conversion, field string, n int) uint32 {
	if n < 0 || int64(n) > math.MaxUint32 {
		c.fail("%s is %d, outside 0..%d", field, n, uint32(math.MaxUint32))
		return 0
	}
	return uint32(n)
}

// fromBytes keeps absent JSON absent: an empty non-nil RawMessage is not valid JSON.
func fromBytes(b []byte) json.RawMessage {
	if len(b) == 0 {
		return nil
	}
	return b
}

func convertAll[G, W any](c *conversion, items []G, one func(*conversion, G) W) []W {
	if len(items) == 0 {
		return nil
	}
	out := make([]W, len(items))
	for i, item := range items {
		out[i] = one(c, item)
	}
	return out
}

func toDescriptor(c *conversion, d driver.Descriptor) *driverpb.DescribeResponse {
	return &driverpb.DescribeResponse{
		Name:          d.Name,
		Version:       d.Version,
		Role:          toEnum(c, roles, d.Role),
		Handles:       d.Handles,
		Effect:        toEnum(c, effects, d.Effect),
		ConfigSchema:  d.ConfigSchema,
		Features:      d.Features,
		StateVersions: convertAll(c, d.StateVersions, func(c *conversion, v int) uint32 { return toUint32(c, "state version", v) }),
		Needs:         d.Needs,
		AnswersBy:     d.AnswersBy,
		Approval:      toEnum(c, approvals, d.Approval),
		Transport:     toEnum(c, transports, d.Transport),
		Sends: convertAll(c, d.Sends, func(_ *conversion, m driver.ClientMethod) *driverpb.ClientMethod {
			return &driverpb.ClientMethod{Method: m.Method, Needs: m.Needs}
		}),
		ActionSchema: d.ActionSchema,
		ParamsSchema: d.ParamsSchema,
		OutputSchema: d.OutputSchema,
	}
}

func fromDescriptor(c *conversion, d *driverpb.DescribeResponse) driver.Descriptor {
	return driver.Descriptor{
		Name:          d.GetName(),
		Version:       d.GetVersion(),
		Role:          fromEnum(c, roles, d.GetRole()),
		Handles:       d.GetHandles(),
		Effect:        fromEnum(c, effects, d.GetEffect()),
		ConfigSchema:  fromBytes(d.GetConfigSchema()),
		Features:      d.GetFeatures(),
		StateVersions: convertAll(c, d.GetStateVersions(), func(_ *conversion, v uint32) int { return int(v) }),
		Needs:         d.GetNeeds(),
		AnswersBy:     d.GetAnswersBy(),
		Approval:      fromEnum(c, approvals, d.GetApproval()),
		Transport:     fromTransport(c, d.GetTransport()),
		Sends: convertAll(c, d.GetSends(), func(_ *conversion, m *driverpb.ClientMethod) driver.ClientMethod {
			return driver.ClientMethod{Method: m.GetMethod(), Needs: m.GetNeeds()}
		}),
		ActionSchema: fromBytes(d.GetActionSchema()),
		ParamsSchema: fromBytes(d.GetParamsSchema()),
		OutputSchema: fromBytes(d.GetOutputSchema()),
	}
}

func toDiagnostics(c *conversion, all []driver.Diagnostic) []*driverpb.Diagnostic {
	return convertAll(c, all, func(c *conversion, d driver.Diagnostic) *driverpb.Diagnostic {
		return &driverpb.Diagnostic{
			Severity: toEnum(c, severities, d.Severity), Pointer: d.Pointer, Message: d.Message,
		}
	})
}

func fromDiagnostics(c *conversion, all []*driverpb.Diagnostic) []driver.Diagnostic {
	return convertAll(c, all, func(c *conversion, d *driverpb.Diagnostic) driver.Diagnostic {
		return driver.Diagnostic{
			Severity: fromEnum(c, severities, d.GetSeverity()), Pointer: d.GetPointer(), Message: d.GetMessage(),
		}
	})
}

func toStep(c *conversion, s driver.Step) *driverpb.Step {
	return &driverpb.Step{
		Protocol: s.Protocol, Label: s.Label, Text: s.Text,
		Index: toUint32(c, "step index", s.Index), Count: toUint32(c, "step count", s.Count),
	}
}

func fromStep(s *driverpb.Step) driver.Step {
	return driver.Step{
		Protocol: s.GetProtocol(), Label: s.GetLabel(), Text: s.GetText(),
		Index: int(s.GetIndex()), Count: int(s.GetCount()),
	}
}

func toClient(cl driver.Client) *driverpb.Client {
	return &driverpb.Client{
		Name: cl.Name, Version: cl.Version, Era: cl.Era, Transport: cl.Transport,
		ElicitationForm: cl.ElicitationForm, ElicitationUrl: cl.ElicitationURL,
		Sampling: cl.Sampling, Roots: cl.Roots, Capabilities: cl.Capabilities,
	}
}

func fromClient(cl *driverpb.Client) driver.Client {
	return driver.Client{
		Name: cl.GetName(), Version: cl.GetVersion(), Era: cl.GetEra(), Transport: cl.GetTransport(),
		ElicitationForm: cl.GetElicitationForm(), ElicitationURL: cl.GetElicitationUrl(),
		Sampling: cl.GetSampling(), Roots: cl.GetRoots(), Capabilities: fromBytes(cl.GetCapabilities()),
	}
}

func toInput(c *conversion, in driver.Input) *driverpb.Input {
	out := &driverpb.Input{
		Id: in.ID, Kind: in.Kind, Description: in.Description, System: in.System, User: in.User,
		Schema: in.Schema, Type: in.Type, Display: in.Display,
		Temperature: in.Temperature, TopP: in.TopP, MaxTokens: toUint32(c, "max_tokens", in.MaxTokens),
		Approval: toEnum(c, approvals, in.Approval), Person: in.Person, Sensitive: in.Sensitive, Action: in.Action,
	}
	if in.Similarity != nil {
		out.Similarity = &driverpb.Similarity{Text: in.Similarity.Text, Reference: in.Similarity.Reference}
	}
	return out
}

func fromInput(c *conversion, in *driverpb.Input) driver.Input {
	if in == nil {
		c.fail("the input is missing")
		return driver.Input{}
	}
	out := driver.Input{
		ID: in.Id, Kind: in.Kind, Description: in.Description, System: in.System, User: in.User,
		Schema: fromBytes(in.Schema), Type: in.Type, Display: fromBytes(in.Display),
		Temperature: in.Temperature, TopP: in.TopP, MaxTokens: int(in.MaxTokens),
		Approval: fromEnum(c, approvals, in.Approval), Person: in.Person, Sensitive: in.Sensitive, Action: fromBytes(in.Action),
	}
	if in.Similarity != nil {
		out.Similarity = &driver.Similarity{Text: in.Similarity.Text, Reference: in.Similarity.Reference}
	}
	return out
}

func toAnswer(c *conversion, a driver.Answer) *driverpb.Answer {
	return &driverpb.Answer{
		InputId: a.InputID, Value: a.Value, Provenance: toEnum(c, provenances, a.Provenance),
		Via: a.Via, Model: a.Model, StopReason: a.StopReason, Usage: toUsage(c, a.Usage),
		ObtainedAt: a.ObtainedAt,
	}
}

func fromAnswer(c *conversion, a *driverpb.Answer) driver.Answer {
	return driver.Answer{
		InputID: a.GetInputId(), Value: fromBytes(a.GetValue()),
		Provenance: fromEnum(c, provenances, a.GetProvenance()),
		Via:        a.GetVia(), Model: a.GetModel(), StopReason: a.GetStopReason(), Usage: fromUsage(a.GetUsage()),
		ObtainedAt: a.GetObtainedAt(),
	}
}

func toUsage(c *conversion, u *driver.Usage) *driverpb.Usage {
	if u == nil {
		return nil
	}
	return &driverpb.Usage{
		InputTokens: toUint32(c, "input tokens", u.InputTokens), OutputTokens: toUint32(c, "output tokens", u.OutputTokens),
	}
}

func fromUsage(u *driverpb.Usage) *driver.Usage {
	if u == nil {
		return nil
	}
	return &driver.Usage{InputTokens: int(u.GetInputTokens()), OutputTokens: int(u.GetOutputTokens())}
}

func toState(c *conversion, s driver.State) *driverpb.State {
	return &driverpb.State{Version: toUint32(c, "state version", s.Version), Data: s.Data}
}

func fromState(s *driverpb.State) driver.State {
	return driver.State{Version: int(s.GetVersion()), Data: fromBytes(s.GetData())}
}

// toPending and fromPending refuse numbers that mean nothing.
func toPending(c *conversion, p driver.Pending) *driverpb.Pending {
	if !(p.RetryAfter >= 0 && p.RetryAfter <= math.MaxInt32) {
		c.fail("pending: retry_after is %v, want seconds, 0 or more", p.RetryAfter)
	}
	if p.Progress != nil && !(*p.Progress >= 0 && *p.Progress <= 1) {
		c.fail("pending: progress is %v, want 0 to 1", *p.Progress)
	}
	return &driverpb.Pending{Reason: p.Reason, RetryAfter: p.RetryAfter, Progress: p.Progress, Message: p.Message}
}

func fromPending(c *conversion, p *driverpb.Pending) *driver.Pending {
	out := driver.Pending{Reason: p.GetReason(), RetryAfter: p.GetRetryAfter(), Message: p.GetMessage()}
	if p != nil {
		out.Progress = p.Progress
	}
	toPending(c, out)
	return &out
}

// errOutcome is a result without exactly one outcome.
var errOutcome = errors.New("the result must have exactly one outcome")
