package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// OpenStep is the open step of the pinned protocol.
func OpenStep(s *State) protocol.Step { return s.Chain.Steps[s.Run.Step.Index-1] }

// Complete reports whether every step is solved.
func Complete(s *State) bool { return s.Run.Step.Index > len(s.Chain.Steps) }

// Place is where the open step stands, without what it demands.
func Place(s *State) *input.Task {
	step := OpenStep(s)
	return &input.Task{Step: step, Where: driver.Step{
		Protocol: s.Chain.Title, Label: step.Heading(), Text: View(s).Text(s.Run.Step.Index),
		Index: s.Run.Step.Index, Count: len(s.Chain.Steps),
	}}
}

// Filled is the open step with its challenge, into which the values are put that it refers to.
func Filled(s *State) (*input.Task, error) {
	k := Place(s)
	step := k.Step
	if k.Free() {
		k.Common = protocol.Common{Type: s.Tree.NoChallengeType()}
		return k, nil
	}
	filled, missing, err := protocol.Fill(step.Challenge, step.Templates, runs.Scope(*s.Run, *s.Chain))
	if errors.Is(err, protocol.ErrTooLarge) {
		return nil, fault.Wrap(err, fault.InvalidArgument, "The challenge of step %d cannot be filled: %v.", k.Where.Index, err).
			WithNext("this run cannot reach the step: begin the protocol again with kairos_begin and submit shorter values, or change the step to refer to less of them")
	}
	if err != nil {
		return nil, fault.Wrap(err, fault.InvalidArgument, "A value cannot be put into the challenge of step %d: %v.", k.Where.Index, err)
	}
	if len(missing) > 0 {
		return nil, missingValues(*s.Run, *s.Chain, missing)
	}
	if k.Common, err = protocol.CommonOf(filled); err != nil {
		return nil, fmt.Errorf("challenge of step %d: %w", k.Where.Index, err)
	}
	if k.Common.Type == "" {
		k.Common.Type = s.Tree.MissingType()
	}
	if err := input.OutputSchemaFault(k); err != nil {
		return nil, err
	}
	k.Challenge = filled
	return k, nil
}

// WorkOut adds to a step what it and the rules demand, and names the drivers that it will
// call soon. What is accepted for the step is known by then.
func WorkOut(s *State, k *input.Task) (soon []string, err error) {
	var d decision.Decision
	if !k.Free() {
		d = s.Tree.Decide(input.EvidenceKind.Name, Facts(s, k, input.EvidenceKind.Name))
		k.Use = d.Use
	}
	if err := ruled(s, k, s.Run.Step.Inputs, s.Run.Step.Plan); err != nil {
		return nil, err
	}
	if k.Free() {
		return nil, nil
	}
	if k.Use == "" {
		return nil, Unavailable("no configured driver handles challenges of type %q", k.Common.Type)
	}
	if err := approve(s, k); err != nil {
		return nil, err
	}
	if d.Route != nil {
		soon = []string{k.Use, d.Route.Via}
	}
	return soon, nil
}

// approve works out how the step is approved, and refuses a step that nobody can approve.
func approve(s *State, k *input.Task) *fault.Error {
	judge, _, _ := s.Drivers.Describe(k.Use)
	k.Approval = drivers.ApprovalOf(drivers.ApprovalSources{Server: s.How, Rules: k.Demand, Step: k.Common, Type: judge.Approval, Realm: s.Realm})
	if why := k.Approval.Conflict(); why != "" {
		return fault.New(fault.RulesConflict, "Step %d cannot be solved: nobody can approve it, because %s.", k.Where.Index, why)
	}
	return nil
}

// Facts are what conditions may look at for one input of the open step.
func Facts(s *State, k *input.Task, inputID string) decision.Facts {
	c := s.Caller.Client
	f := decision.Facts{
		Challenge: drivers.ChallengeFacts(k.Step.Name, k.Common, k.Challenge),
		Step: decision.StepFacts{
			Index: k.Where.Index, Count: k.Where.Count, Name: k.Step.Name, Approval: k.Common.ApprovalMode, Accepted: len(AcceptedHere(s)) > 0,
		},
		Protocol: drivers.ProtocolFacts(*s.Chain, s.Chain.Space),
		Run:      decision.RunFacts{Attempt: s.Run.Step.Failures + 1, Input: decision.Object(s.Run.Input)},
		Client: decision.ClientFacts{
			Name: c.Name, Version: c.Version, Era: c.Era, Transport: c.Transport,
			Elicitation: decision.ElicitationFacts{Form: c.ElicitationForm, URL: c.ElicitationURL},
			Sampling:    c.Sampling, Roots: c.Roots, Capabilities: decision.Object(c.Capabilities),
		},
		Previous: previousRoutes(s, inputID),
		Config:   s.Settings,
	}
	if who := Asker(s); who != nil {
		f.Caller = decision.CallerFacts{Name: who.Name, Groups: who.Groups, Method: who.Method}
	}
	f.Protocol.Digest = s.Digest
	f.Approval = decision.ApprovalFacts{How: k.Approval.How, Page: Answerable(s, k)}
	if s := s.Solution; s != nil {
		f.Solution = decision.SolutionFacts{Supplied: s.Supplied(), Type: s.Type, Params: s.Object}
	}
	return f
}

// Asker is who calls, where a condition reads that; nil: none does.
func Asker(s *State) *run.Asker {
	switch {
	case !s.Tree.ReadsCaller() && !s.Rules.ReadsCaller():
		return nil
	case s.Asker != nil:
		return s.Asker
	}
	return &run.Asker{Name: s.Caller.Name, Groups: s.Caller.MemberOf, Method: string(s.Caller.Method)}
}

func missingValues(r run.Run, chain protocol.Chain, missing []protocol.Reference) error {
	const most = 20 // a challenge can have thousands of templates
	var keys, inputs []string
	for _, m := range missing {
		if slices.Contains(keys, m.Text) {
			continue
		}
		if len(keys) == most {
			break
		}
		keys = append(keys, m.Text)
		if m.Source == protocol.FromInput {
			inputs = append(inputs, m.Path[0])
		}
	}
	form := decision.Object(r.Input)
	if form == nil {
		form = map[string]any{}
	}
	maps.Copy(form, api.InputForm(chain.Inputs, inputs))
	return fault.New(fault.MissingInput, "step %d needs %s, which has no value", r.Step.Index, strings.Join(keys, ", ")).
		With("missing", keys).
		WithNext(`call kairos_begin with %s and an input object that holds what is missing`, protocol.URI(chain.Steps[0].UUID)).
		WithCall(api.ToolBegin, map[string]any{"uri": protocol.URI(chain.Steps[0].UUID), "input": form})
}
