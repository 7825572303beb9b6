package library

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// judge validates challenges with the setup that one use case holds from its
// start to its end, so that drivers and tree never change in the middle of a call.
type judge struct {
	drivers.Setup
	verdicts *verdicts
}

// hold takes the present setup for one use case, which calls release when it ends.
func hold(setups drivers.Setups) (j judge, release func()) {
	s, release := setups.Hold()
	return judge{Setup: s, verdicts: new(verdicts)}, release
}

// Text is a document and the file that it was read from.
type Text struct {
	Document string
	// File titles a document that has no title. It is empty for a document that a client
	// sent.
	File string
}

// check parses a document for a space and validates it with the drivers. An error means
// that it is refused, or that a driver could not check it.
func (j judge) check(ctx context.Context, space string, text Text) ([]protocol.Chain, []protocol.Diagnostic, error) {
	chains, found := protocol.ParseFile([]byte(text.Document), text.File)
	found, err := j.findings(ctx, space, chains, found)
	if err != nil {
		return nil, nil, err
	}
	return split(chains, found)
}

// findings adds to those of the parser what drivers and rules find in the protocols. The steps
// get what their drivers say of them.
func (j judge) findings(ctx context.Context, space string, chains []protocol.Chain, found []protocol.Diagnostic) ([]protocol.Diagnostic, error) {
	byDriver := make(map[string][]stepAt)
	for i := range chains {
		for k, s := range chains[i].Steps {
			if _, err := protocol.CommonOf(s.Challenge); s.Challenge == nil || err != nil {
				continue // Parse has reported it already
			}
			use, problem := j.JudgeOf(s)
			if problem != nil {
				found = append(found, *problem)
				continue
			}
			byDriver[use] = append(byDriver[use], stepAt{i, k})
		}
	}
	judged, err := j.validateAll(ctx, chains, byDriver)
	if err != nil {
		return nil, err
	}
	found = slices.Concat(found, judged, j.unmet(space, chains, byDriver))
	for _, chain := range chains {
		if _, err := run.Digest(inputsOf(chain)); err != nil {
			found = append(found, *chain.Steps[0].Problem("/inputs", "the inputs have no canonical form: "+err.Error()))
		} else if _, err := schema.Compile(inputsOf(chain)); err != nil {
			found = append(found, *chain.Steps[0].Problem("/inputs", "inputs: "+err.Error()))
		}
		// After the drivers, because it needs to know the escapings they declared.
		found = append(found, protocol.CheckReferences(chain)...)
		found = append(found, protocol.CheckHidden(chain)...)
		found = append(found, protocol.CheckLookalikes(chain.Steps, j.Tree.Types())...)
	}
	return found, nil
}

// stepAt is the place of a step among the chains of a document.
type stepAt struct{ chain, step int }

// validateAll has each driver validate its steps.
func (j judge) validateAll(ctx context.Context, chains []protocol.Chain, byDriver map[string][]stepAt) (found []protocol.Diagnostic, err error) {
	var mu sync.Mutex // guards found
	var g errgroup.Group
	for use, steps := range byDriver {
		g.Go(func() error {
			for _, at := range steps {
				ds, err := j.validate(ctx, use, &chains[at.chain].Steps[at.step])
				if err != nil {
					return err
				}
				mu.Lock()
				found = append(found, ds...)
				mu.Unlock()
			}
			return nil
		})
	}
	return found, g.Wait()
}

// unmet reports what nothing can meet of what is demanded of the steps, now that drivers have
// said what each would do.
func (j judge) unmet(space string, chains []protocol.Chain, byDriver map[string][]stepAt) (found []protocol.Diagnostic) {
	for i, chain := range chains {
		for k := range chain.Steps {
			if problem := j.Contradicted(drivers.Place{Space: space, Chain: chains[i]}, k); problem != nil {
				found = append(found, *problem)
			}
		}
	}
	for use, steps := range byDriver {
		for _, at := range steps {
			found = append(found, j.Stuck(drivers.Place{Space: space, Chain: chains[at.chain]}, at.step, use)...)
		}
	}
	return found
}

// inputsOf is the schema of the protocol's inputs; without one, an empty schema.
func inputsOf(chain protocol.Chain) json.RawMessage {
	if len(chain.Inputs) == 0 {
		return json.RawMessage("{}")
	}
	return chain.Inputs
}

func (j judge) validate(ctx context.Context, use string, s *protocol.Step) ([]protocol.Diagnostic, error) {
	if _, bad := run.Digest(s.Challenge); bad != nil {
		return []protocol.Diagnostic{*s.Problem("", "the challenge has no canonical form: "+bad.Error())}, nil //nolint:nilerr // a finding, not a failure
	}
	drv, ok := j.Drivers.Challenge(use)
	if !ok {
		return nil, fault.New(fault.DriverUnavailable, "driver %s is not configured", use)
	}
	res, err := j.verdicts.validate(ctx, drv, use, s.Challenge)
	if err != nil {
		return nil, fault.Wrap(err, fault.DriverUnavailable, "driver %s could not check step %q, so nothing was stored: %s", use, s.Label, plain.Clip(err.Error(), 600)).
			WithNext("call kairos_mint again once the driver works")
	}
	s.Templates, s.Action = slices.Clone(res.Templates), res.Action
	if d, _, described := j.Drivers.Describe(use); described {
		s.Output = d.OutputSchema
	}
	diagnostics := outputSchemaProblem(s.Challenge, shortened(res.Diagnostics))
	pointers := make([]string, len(diagnostics))
	for i, d := range diagnostics {
		pointers[i] = d.Pointer
	}
	out := make([]protocol.Diagnostic, len(diagnostics))
	for i, at := range s.Positions(pointers...) {
		d := diagnostics[i]
		out[i] = protocol.Diagnostic{
			Severity: d.Severity, Line: at.Line, Column: at.Column, Step: s.Label, Pointer: d.Pointer, Message: plain.Clip(d.Message, 1000),
		}
	}
	return out, nil
}

// maxFindings bounds the findings that a driver may have about one step: a challenge
// may have 200,000 keys that no driver knows.
const maxFindings = 1000

// shortened keeps at most maxFindings findings, errors before others, and says how many
// it left out.
func shortened(found []driver.Diagnostic) []driver.Diagnostic {
	if len(found) <= maxFindings {
		return found
	}
	isError := func(d driver.Diagnostic) bool { return d.Severity != driver.SeverityWarning }
	kept := make([]driver.Diagnostic, 0, maxFindings+1)
	for _, errors := range []bool{true, false} {
		for _, d := range found {
			if isError(d) == errors && len(kept) < maxFindings {
				kept = append(kept, d)
			}
		}
	}
	rest := driver.Problem("", fmt.Sprintf("%d more findings are not shown", len(found)-maxFindings))
	rest.Severity = kept[len(kept)-1].Severity
	return append(kept, rest)
}

// outputSchemaProblem adds a finding if the output_schema does not compile, unless
// the driver already reported one there.
func outputSchemaProblem(challenge json.RawMessage, found []driver.Diagnostic) []driver.Diagnostic {
	const pointer = "/output_schema"
	common, err := protocol.CommonOf(challenge)
	if err != nil || len(common.OutputSchema) == 0 ||
		slices.ContainsFunc(found, func(d driver.Diagnostic) bool { return strings.HasPrefix(d.Pointer, pointer) }) {
		return found
	}
	if _, err := schema.Compile(common.OutputSchema); err != nil {
		return append(slices.Clone(found), driver.Problem(pointer, err.Error()))
	}
	return found
}

// verdicts caches the results of validation in one use case: documents that are
// imported together often share challenges.
type verdicts struct {
	mu      sync.Mutex // guards the field below
	results map[string]driver.ValidateResult
}

func (v *verdicts) validate(ctx context.Context, drv driver.Challenge, use string, challenge json.RawMessage) (driver.ValidateResult, error) {
	key := use + "\n" + string(challenge)
	v.mu.Lock()
	res, known := v.results[key]
	v.mu.Unlock()
	if known {
		return res, nil
	}
	res, err := drv.Validate(ctx, driver.ValidateRequest{Challenge: challenge})
	if err != nil {
		return res, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.results == nil {
		v.results = make(map[string]driver.ValidateResult)
	}
	v.results[key] = res
	return res, nil
}

// split returns an error if there are findings of severity error, and the warnings
// otherwise.
func split(chains []protocol.Chain, found []protocol.Diagnostic) ([]protocol.Chain, []protocol.Diagnostic, error) {
	protocol.SortDiagnostics(found)
	var errs, warnings []protocol.Diagnostic
	for _, d := range found {
		if d.Severity == driver.SeverityWarning {
			warnings = append(warnings, d)
			continue
		}
		errs = append(errs, d)
	}
	if len(errs) == 0 && len(chains) == 0 {
		return nil, nil, fault.New(fault.DocumentRefused, "the document holds no protocol")
	}
	if len(errs) == 0 {
		return chains, warnings, nil
	}
	lines := make([]string, len(errs))
	for i, d := range errs {
		lines[i] = d.String()
	}
	return nil, nil, fault.New(fault.DocumentRefused, "the document is refused and nothing was stored:\n%s", strings.Join(lines, "\n")).
		With("diagnostics", errs).WithNext("fix the errors and call the same tool again")
}

// step validates one step with its challenge driver and keeps the templates that
// the driver allows.
func (j judge) step(ctx context.Context, chain protocol.Chain, i int) ([]protocol.Diagnostic, error) {
	s := &chain.Steps[i]
	s.Templates = nil
	var found []protocol.Diagnostic
	if s.Challenge != nil {
		use, problem := j.JudgeOf(*s)
		if problem != nil {
			return []protocol.Diagnostic{*problem}, nil
		}
		var err error
		if found, err = j.validate(ctx, use, s); err != nil {
			return nil, err
		}
	}
	if problem := j.Contradicted(drivers.Place{Space: chain.Space, Chain: chain}, i); problem != nil {
		found = append(found, *problem)
	}
	if s.Challenge == nil {
		return append(found, protocol.CheckLookalikes(chain.Steps[i:i+1], j.Tree.Types())...), nil
	}
	use, _ := j.JudgeOf(*s)
	if problem := j.Unapprovable(drivers.Place{Space: chain.Space, Chain: chain}, i, use); problem != nil && problem.Severity == driver.SeverityError {
		found = append(found, *problem)
	}
	return found, nil
}
