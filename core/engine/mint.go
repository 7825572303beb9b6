package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// maxModel bounds the name of a model, which every protocol of a document and
// every rating keeps, in bytes.
const maxModel = 200

// Mint stores the protocols of a document, all or none. Findings that refuse
// it come with line and JSON pointer. Of two that mint one title at once, one
// is the older version of the other, or without Force the second is refused.
func (e *Engine) Mint(ctx context.Context, c access.Caller, in api.MintRequest) (_ api.MintReply, err error) {
	defer e.operated(OperationStore, c, time.Now(), &err)
	ctx = access.InSpace(ctx, c.Space)
	space, err := mintSpace(c, in.Space)
	if err != nil {
		return api.MintReply{}, err
	}
	if err := e.ready(ctx); err != nil {
		return api.MintReply{}, nothingStored(err)
	}
	h, release := e.hold()
	defer release()
	chains, warnings, err := h.check(ctx, in.Document)
	if err != nil {
		return api.MintReply{}, err
	}
	for i := range chains {
		chains[i].Space, chains[i].ModelID = space, plain.Clip(in.ModelID, maxModel)
	}
	var stored []rewrite
	err = whileOvertaken(ctx, func() error {
		if stored, err = e.rewrites(ctx, c, chains, in.Force); err != nil {
			return nothingStored(err)
		}
		return e.save(ctx, stored...)
	})
	if err != nil {
		return api.MintReply{}, notStored(err)
	}
	reply := api.MintReply{Items: []api.MintItem{}, Status: "stored"}
	for _, w := range warnings {
		reply.Warnings = append(reply.Warnings, api.Diagnostic(w))
	}
	for i, w := range stored {
		chains[i] = w.Chain
		reply.Items = append(reply.Items, items(w.Chain)...)
		e.rateStored(w, "kairos_mint")
	}
	reply.Message = e.embed(ctx, chains...)
	reply.NextCall = beginCall(reply.Items[0].URI)
	return reply, nil
}

// nothingStored says so where the store could not even be read. A save that is
// cut off says itself what became of it.
func nothingStored(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.StoreUnavailable {
		return err
	}
	told := *f
	told.Message += "; nothing was stored"
	return &told
}

// notStored says so of failures that have no code of their own.
func notStored(err error) error {
	if fault.CodeOf(err) != fault.Internal {
		return err
	}
	return fault.Wrap(err, fault.StoreFailed, "the document could not be stored: %v", err)
}

// rewrites puts the chains where those of their titles are now.
func (e *Engine) rewrites(ctx context.Context, c access.Caller, chains []protocol.Chain, force bool) ([]rewrite, error) {
	now := e.opt.Clock.Now()
	out := make([]rewrite, len(chains))
	for i, chain := range chains {
		old, err := e.existing(ctx, c, chain, force)
		if err != nil {
			return nil, err
		}
		chain.Steps = slices.Clone(chain.Steps)
		chain.CreatedAt, chain.UpdatedAt = now, now
		out[i] = rewriting(identify(chain, old), old)
	}
	return out, nil
}

func items(chain protocol.Chain) []api.MintItem {
	out := make([]api.MintItem, len(chain.Steps))
	for i, s := range chain.Steps {
		out[i] = api.MintItem{URI: protocol.URI(s.UUID), MemoryUUID: s.UUID, Label: s.Label, Tags: orEmpty(s.Tags)}
	}
	return out
}

// Check parses a document and lets the challenge drivers judge every
// challenge. The chains carry the templates that their drivers allow.
func (e *Engine) Check(ctx context.Context, document string) ([]protocol.Chain, []protocol.Diagnostic, error) {
	h, release := e.hold()
	defer release()
	return h.check(ctx, document)
}

// Lint is Check that refuses nothing: it returns the protocols of a document and
// every finding, in the order of the document.
func (e *Engine) Lint(ctx context.Context, document string) ([]protocol.Chain, []protocol.Diagnostic, error) {
	h, release := e.hold()
	defer release()
	chains, found, err := h.findings(ctx, document)
	protocol.SortDiagnostics(found)
	return chains, found, err
}

func (e held) check(ctx context.Context, document string) ([]protocol.Chain, []protocol.Diagnostic, error) {
	chains, found, err := e.findings(ctx, document)
	if err != nil {
		return nil, nil, err
	}
	return split(chains, found)
}

func (e held) findings(ctx context.Context, document string) ([]protocol.Chain, []protocol.Diagnostic, error) {
	chains, found := protocol.Parse([]byte(document))
	type job struct{ chain, step int }
	byDriver := make(map[string][]job)
	for i := range chains {
		for j, s := range chains[i].Steps {
			if s.Challenge == nil {
				continue
			}
			if _, err := protocol.CommonOf(s.Challenge); err != nil {
				continue // Parse has reported it, at its place
			}
			use, problem := e.judgeOf(s)
			if problem != nil {
				found = append(found, *problem)
				continue
			}
			byDriver[use] = append(byDriver[use], job{i, j})
		}
	}
	var mu sync.Mutex // guards found
	var g errgroup.Group
	for use, jobs := range byDriver {
		g.Go(func() error {
			for _, at := range jobs {
				s := &chains[at.chain].Steps[at.step]
				ds, err := e.validate(ctx, use, s)
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
	if err := g.Wait(); err != nil {
		return nil, nil, err
	}
	for _, chain := range chains {
		if _, err := run.Digest(orObject(chain.Inputs)); err != nil {
			found = append(found, *problemOf(chain.Steps[0], "/inputs", "the inputs have no canonical form: "+err.Error()))
		} else if _, err := schema.Compile(orObject(chain.Inputs)); err != nil {
			found = append(found, *problemOf(chain.Steps[0], "/inputs", "inputs: "+err.Error()))
		}
		// After the drivers, because it needs to know the escapings they declared.
		found = append(found, protocol.CheckReferences(chain)...)
	}
	return chains, found, nil
}

// judgeOf names the driver that judges the step's challenge.
func (e held) judgeOf(s protocol.Step) (string, *protocol.Diagnostic) {
	common, err := protocol.CommonOf(s.Challenge)
	if err != nil {
		return "", problemOf(s, "", err.Error())
	}
	kind := cmp.Or(common.Type, e.Tree.MissingType())
	d := e.Tree.Decide(driver.KindEvidence, decision.Facts{Challenge: decision.ChallengeFacts{Type: kind, Name: s.Name}})
	if d.Use == "" {
		meant := "; the types are " + strings.Join(e.Tree.Types(), ", ")
		if closest := e.Tree.ClosestType(kind); closest != "" {
			meant = fmt.Sprintf("; did you mean %q?", closest)
		}
		return "", problemOf(s, "/type", fmt.Sprintf("no configured driver handles challenges of type %q%s", plain.Clip(kind, 80), meant))
	}
	return d.Use, nil
}

func problemOf(s protocol.Step, pointer, message string) *protocol.Diagnostic {
	at := s.Position(pointer)
	return &protocol.Diagnostic{
		Severity: driver.SeverityError, Line: at.Line, Column: at.Column, Step: s.Label, Pointer: pointer, Message: message,
	}
}

func (e held) validate(ctx context.Context, use string, s *protocol.Step) ([]protocol.Diagnostic, error) {
	if _, bad := run.Digest(s.Challenge); bad != nil {
		return []protocol.Diagnostic{*problemOf(*s, "", "the challenge has no canonical form: "+bad.Error())}, nil //nolint:nilerr // a finding, not a failure
	}
	drv, ok := e.Drivers.Challenge(use)
	if !ok {
		return nil, unavailable("driver %s is not configured", use)
	}
	res, err := e.judged.validate(ctx, drv, use, s.Challenge)
	if err != nil {
		return nil, fault.Wrap(err, fault.DriverUnavailable, "driver %s could not check step %q, so nothing was stored: %s", use, s.Label, plain.Clip(err.Error(), 600)).
			WithNext("call kairos_mint again once the driver works")
	}
	s.Templates = slices.Clone(res.Templates)
	diagnostics := outputSchemaProblem(s.Challenge, res.Diagnostics)
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

// outputSchemaProblem adds to what a driver finds that no result can be judged by
// the output_schema, unless the driver found a fault there itself.
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

// judged remembers what drivers said of challenges in one use case: documents
// that are imported together have many in common.
type judged struct {
	mu      sync.Mutex // guards the field below
	results map[string]driver.ValidateResult
}

func (j *judged) validate(ctx context.Context, drv driver.Challenge, use string, challenge json.RawMessage) (driver.ValidateResult, error) {
	key := use + "\n" + string(challenge)
	j.mu.Lock()
	res, known := j.results[key]
	j.mu.Unlock()
	if known {
		return res, nil
	}
	res, err := drv.Validate(ctx, driver.ValidateRequest{Challenge: challenge})
	if err != nil {
		return res, err
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.results == nil {
		j.results = make(map[string]driver.ValidateResult)
	}
	j.results[key] = res
	return res, nil
}

// split refuses on errors and passes warnings on.
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
		return nil, nil, fault.New(fault.StoreFailed, "the document holds no protocol")
	}
	if len(errs) == 0 {
		return chains, warnings, nil
	}
	lines := make([]string, len(errs))
	for i, d := range errs {
		lines[i] = d.String()
	}
	return nil, nil, fault.New(fault.StoreFailed, "the document is refused and nothing was stored:\n%s", strings.Join(lines, "\n")).
		With("diagnostics", errs).WithNext("mend the document and call kairos_mint again")
}

// existing returns the chain that would be replaced, and refuses doubles.
func (e *Engine) existing(ctx context.Context, c access.Caller, chain protocol.Chain, force bool) (*protocol.Chain, error) {
	old, err := e.stored(ctx, chain)
	switch {
	case err != nil || force:
		return old, err
	case old != nil:
		return nil, duplicate(*old)
	}
	err = e.similar(ctx, c, chain)
	if fault.CodeOf(err) != fault.SimilarMemoryFound {
		return nil, err
	}
	// What is so similar may be the same, stored by another a moment ago.
	if old, failed := e.stored(ctx, chain); failed == nil && old != nil {
		return nil, duplicate(*old)
	}
	return nil, err
}

func duplicate(old protocol.Chain) *fault.Error {
	type item struct {
		Label string `json:"label"`
		URI   string `json:"uri"`
	}
	list := make([]item, len(old.Steps))
	for i, s := range old.Steps {
		list[i] = item{s.Label, protocol.URI(s.UUID)}
	}
	return fault.New(fault.DuplicateChain, "a protocol titled %q is stored already; mint with force_update to replace it", old.Title).
		With("chain_id", old.ID).With("items", list).
		WithNext("call kairos_dump with %s to compare, then kairos_mint with force_update to replace it", protocol.URI(old.Steps[0].UUID)).
		WithCall(toolDump, map[string]any{"uri": protocol.URI(old.Steps[0].UUID), "protocol": true})
}

// similar refuses what is nearly another protocol.
func (e *Engine) similar(ctx context.Context, c access.Caller, chain protocol.Chain) error {
	hits, err := e.store.Searcher.Search(ctx, Query{Text: chain.Title, Spaces: c.Spaces(), Limit: 1, Embedding: e.meanings(ctx, []string{chain.Title})[0]})
	if err != nil {
		return fmt.Errorf("look for protocols similar to %q: %w", chain.Title, err)
	}
	if len(hits) == 0 || hits[0].Score < e.opt.SimilarThreshold {
		return nil
	}
	h := hits[0]
	uri := protocol.URI(h.Chain.Steps[0].UUID)
	return fault.New(fault.SimilarMemoryFound, "a very similar protocol is stored already: %q", h.Chain.Title).
		With("similarity_score", h.Score).With("must_obey", true).
		With("existing_memory", map[string]any{
			"uri": uri, "memory_uuid": h.Chain.Steps[0].UUID, "label": h.Chain.Steps[0].Label,
			"chain_label": h.Chain.Title, "score": h.Score, "total_steps": len(h.Chain.Steps),
		}).
		WithNext("call kairos_dump with %s and compare; if yours is different, call kairos_mint with force_update", uri).
		WithCall(toolDump, map[string]any{"uri": uri, "protocol": true})
}

// digestOf identifies the content of a chain.
func digestOf(chain protocol.Chain) (string, error) {
	b, err := json.Marshal(chain)
	if err != nil {
		return "", fmt.Errorf("encode protocol %q: %w", chain.Title, err)
	}
	return run.Digest(b)
}
