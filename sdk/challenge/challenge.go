// Package challenge makes a challenge driver of two structs and one function:
// the Demand (what a step asks for), the Evidence (what is submitted), and the
// judge that compares the two. Validation at mint time, defaults,
// the question to agents, people and models, and the reading of the evidence
// follow from the structs, which have the tags of package settings.
//
// A type that asks more than one question, or keeps state between them,
// implements driver.Challenge itself.
package challenge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/shape"
)

// InputID is the id of the one input that a driver of this package asks for.
const InputID = "evidence"

// CodeIncomplete is the code of the rejection of evidence that cannot be read.
const CodeIncomplete = "MISSING_FIELD"

// Options are what a type can say beyond its structs. The zero value works.
type Options[D any] struct {
	// Ask tells an agent or a person what the demand asks of them. The
	// fields of the evidence follow it. Nil: only those are shown.
	Ask func(D) string
	// Check finds what bounds cannot say about a demand. Pointers are relative
	// to the demand. It sees demands without templates only.
	Check func(D) []driver.Diagnostic
	// Question has the last word on the input that asks for the evidence: its
	// prompts for a model, whether it is a person's own, and so on.
	Question func(*driver.Input, D, driver.Step)
	// Output is a value of the type that the judge gives to Accept and Observe, from
	// which the schema of the output is derived. Nil: the judge gives nil or the
	// evidence, which is the output.
	Output any
	// Settings are what the driver is configured by: a *settings.Of. Nil: it
	// takes no configuration.
	Settings Settings
	// Effect is what the judge may do to the world. The default is nothing: it is pure.
	Effect driver.Effect
	// Approval is the mode of steps that do not say. Empty means auto.
	Approval driver.ApprovalMode
	// Recovers: the judge recognises idempotency keys, as driver.FeatureRecover
	// says. With RequestOf(ctx).Recover it reports what came of the call and
	// does not act.
	Recovers bool
}

// Settings configure a driver. Implemented by *settings.Of.
type Settings interface {
	driver.Configurer
	Schema() json.RawMessage
}

// New makes the driver of a challenge type, which is also the driver's name.
// The demand D is the object named like the type in a challenge. The judge is
// called concurrently. New panics when D or E is not such a struct as package
// settings describes, or without a judge.
func New[D, E any](
	name, version string, judge func(context.Context, D, E) Verdict, opt Options[D],
) driver.Driver {
	if judge == nil {
		panic("challenge type " + name + " has no judge")
	}
	t := typed[D, E]{name: name, judge: judge, opt: opt, demand: shape.Of[D](), evidence: shape.Of[E]()}
	d := driver.Driver{
		Descriptor: driver.Descriptor{
			Name: name, Version: version, Role: driver.RoleChallenge, Handles: []string{name},
			Effect: opt.Effect, Approval: opt.Approval,
			ParamsSchema: t.demand.Schema(), OutputSchema: t.evidence.Schema(),
		},
		Challenge: t,
	}
	if opt.Recovers {
		d.Descriptor.Features = []string{driver.FeatureRecover}
	}
	if opt.Effect == "" {
		d.Descriptor.Effect = driver.EffectPure
	}
	if opt.Output != nil {
		d.Descriptor.OutputSchema = shape.ClosedSchemaOf(opt.Output).JSON()
	}
	if opt.Settings != nil {
		d.Descriptor.ConfigSchema = opt.Settings.Schema()
		d.Challenge = configured[D, E]{t, opt.Settings}
	}
	return d
}

type requestKey struct{}

// RequestOf is what the host asked, for a judge that needs more than demand and
// evidence: the step's text, who vouches for the answer, the client, the
// idempotency key.
func RequestOf(ctx context.Context) driver.AdvanceRequest {
	req, _ := ctx.Value(requestKey{}).(driver.AdvanceRequest)
	return req
}

// typed is a driver made of a demand and its evidence.
type typed[D, E any] struct {
	name     string
	judge    func(context.Context, D, E) Verdict
	opt      Options[D]
	demand   *shape.Shape[D]
	evidence *shape.Shape[E]
}

// configured is a typed driver that takes configuration.
type configured[D, E any] struct {
	typed[D, E]
	Settings
}

// open finds the demand in a challenge; one that says nothing of it is empty.
func (t typed[D, E]) open(challenge json.RawMessage) (json.RawMessage, []driver.Diagnostic) {
	top := fields.Open(challenge, "")
	if !top.Has(t.name) {
		return json.RawMessage("{}"), top.Diagnostics()
	}
	return top.Raw(t.name), top.Diagnostics()
}

func (t typed[D, E]) pointer() string { return fields.Pointer(t.name) }

func (t typed[D, E]) check(d D) []driver.Diagnostic {
	if t.opt.Check == nil {
		return nil
	}
	found := t.opt.Check(d)
	for i := range found {
		found[i].Pointer = t.pointer() + found[i].Pointer
	}
	return found
}

// Validate implements driver.Challenge.
func (t typed[D, E]) Validate(_ context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	res := driver.ValidateResult{Templates: []driver.Template{{Pointer: t.pointer(), Escaping: driver.EscapeText}}}
	raw, found := t.open(req.Challenge)
	if res.Diagnostics = found; fields.AnyError(found) {
		return res, nil
	}
	d, found := t.demand.ReadTemplated(raw, t.pointer())
	if !fields.AnyError(found) && !strings.Contains(string(raw), "{{") {
		found = append(found, t.check(d)...)
	}
	if res.Diagnostics = found; fields.AnyError(found) {
		return res, nil
	}
	normal, err := fields.With(req.Challenge, t.name, t.demand.Normal(raw))
	if err != nil {
		return res, err
	}
	res.Challenge, err = fields.With(normal, "type", t.name)
	return res, err
}

// Advance implements driver.Challenge.
func (t typed[D, E]) Advance(ctx context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	raw, found := t.open(req.Challenge)
	var d D
	if !fields.AnyError(found) {
		d, found = t.demand.Read(raw, t.pointer())
	}
	if !fields.AnyError(found) {
		found = t.check(d)
	}
	if fields.AnyError(found) {
		return driver.CannotAdvance("the challenge is not valid: " + fields.Text(found)), nil
	}
	answer, answered := req.Answer(InputID)
	if !answered {
		return driver.Need(t.question(d, raw, req.Step)), nil
	}
	e, found := t.read(answer)
	if fields.AnyError(found) {
		return driver.Reject(CodeIncomplete, fmt.Sprintf("Solution incomplete: %s. Submit evidence as it really is; do not make it up. %s",
			fields.Text(found), t.asked(d))), nil
	}
	evidence := t.evidence.Normal(answer.Value)
	proof, err := json.Marshal(map[string]any{"type": t.name, t.name: t.demand.Public(raw), InputID: t.evidence.Public(answer.Value)})
	if err != nil {
		return driver.AdvanceResult{}, fmt.Errorf("encode the proof: %w", err)
	}
	verdict := t.judge(context.WithValue(ctx, requestKey{}, req), d, e)
	if a := verdict.result.Accepted; a != nil && a.Observed && t.opt.Effect != driver.EffectReads && t.opt.Effect != driver.EffectChanges {
		return driver.AdvanceResult{}, errors.New("the judge observed, and a pure driver looks at nothing: set Options.Effect to driver.EffectReads")
	}
	output, err := t.output(verdict.output, evidence)
	if err != nil {
		return driver.AdvanceResult{}, err
	}
	return verdict.advance(proof, output)
}

// output is what later steps see, as the descriptor declares it.
func (t typed[D, E]) output(given any, evidence json.RawMessage) (json.RawMessage, error) {
	if given == nil {
		return evidence, nil
	}
	raw, err := json.Marshal(given)
	if err != nil {
		return nil, fmt.Errorf("encode the output: %w", err)
	}
	if _, same := given.(E); same && t.opt.Output == nil {
		if _, found := t.evidence.ReadLenient(raw, ""); fields.AnyError(found) {
			return nil, fmt.Errorf("the output does not fit the schema of the evidence: %s; declare its type with Options.Output", fields.Text(found))
		}
		return t.evidence.Normal(raw), nil
	}
	if declared := reflect.TypeOf(t.opt.Output); reflect.TypeOf(given) != declared {
		return nil, fmt.Errorf("the judge gives a %T as output, and Options.Output declares %v: they must be of one type", given, declared)
	}
	return raw, nil
}

// read takes what an agent reports as agents write it, and what the host
// obtained itself as the schema says it.
func (t typed[D, E]) read(a driver.Answer) (E, []driver.Diagnostic) {
	if a.Provenance == driver.AgentReported {
		return t.evidence.ReadLenient(a.Value, "/"+InputID)
	}
	return t.evidence.Read(a.Value, "/"+InputID)
}

const systemPrompt = "You are doing one step of a KAIROS protocol. Do what is asked and report what really happened as one JSON object " +
	"that matches the JSON Schema. Never invent a result."

func (t typed[D, E]) question(d D, raw json.RawMessage, step driver.Step) driver.Input {
	asked := t.asked(d)
	user := asked
	if text := strings.TrimSpace(step.Text); text != "" {
		user += "\n\nThe step:\n" + text
	}
	in := driver.Input{
		ID: InputID, Kind: driver.KindEvidence, Type: t.name, Display: t.demand.Public(raw),
		Description: asked, System: systemPrompt, User: user, Schema: t.evidence.Schema(),
	}
	if t.opt.Question != nil {
		t.opt.Question(&in, d, step)
	}
	return in
}

// asked tells what is demanded and what the evidence consists of: an agent sees
// no schema of it.
func (t typed[D, E]) asked(d D) string {
	var parts []string
	if t.opt.Ask != nil {
		parts = append(parts, t.opt.Ask(d))
	}
	if !t.evidence.Empty() {
		parts = append(parts, "Submit as evidence:\n- "+strings.Join(t.evidence.Lines(), "\n- "))
	}
	return strings.Join(parts, "\n\n")
}
