package library

import (
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
func (l *Library) Mint(ctx context.Context, c access.Caller, in api.MintRequest) (_ api.MintReply, err error) {
	defer l.operated(OperationStore, c, time.Now(), &err)
	ctx = access.InSpace(ctx, c.Space)
	space, err := mintSpace(c, in.Space)
	if err != nil {
		return api.MintReply{}, err
	}
	if err := l.Ready(ctx); err != nil {
		return api.MintReply{}, nothingStored(err)
	}
	h, release := l.hold()
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
		if stored, err = l.rewrites(ctx, c, chains, in.Force); err != nil {
			return nothingStored(err)
		}
		return l.save(ctx, stored...)
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
		l.rateStored(w, "kairos_mint")
	}
	reply.Message = l.embed(ctx, chains...)
	reply.NextCall = api.BeginCall(reply.Items[0].URI)
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
func (l *Library) rewrites(ctx context.Context, c access.Caller, chains []protocol.Chain, force bool) ([]rewrite, error) {
	now := l.opt.Clock.Now()
	out := make([]rewrite, len(chains))
	for i, chain := range chains {
		old, err := l.existing(ctx, c, chain, force)
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
func (l *Library) Check(ctx context.Context, document string) ([]protocol.Chain, []protocol.Diagnostic, error) {
	h, release := l.hold()
	defer release()
	return h.check(ctx, document)
}

// Lint is Check that refuses nothing: it returns the protocols of a document and
// every finding, in the order of the document.
func (l *Library) Lint(ctx context.Context, document string) ([]protocol.Chain, []protocol.Diagnostic, error) {
	h, release := l.hold()
	defer release()
	chains, found, err := h.findings(ctx, document)
	protocol.SortDiagnostics(found)
	return chains, found, err
}

func (l withSetup) check(ctx context.Context, document string) ([]protocol.Chain, []protocol.Diagnostic, error) {
	chains, found, err := l.findings(ctx, document)
	if err != nil {
		return nil, nil, err
	}
	return split(chains, found)
}

func (l withSetup) findings(ctx context.Context, document string) ([]protocol.Chain, []protocol.Diagnostic, error) {
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
			use, problem := l.JudgeOf(s)
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
				ds, err := l.validate(ctx, use, s)
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
		if _, err := run.Digest(inputsOf(chain)); err != nil {
			found = append(found, *chain.Steps[0].Problem("/inputs", "the inputs have no canonical form: "+err.Error()))
		} else if _, err := schema.Compile(inputsOf(chain)); err != nil {
			found = append(found, *chain.Steps[0].Problem("/inputs", "inputs: "+err.Error()))
		}
		// After the drivers, because it needs to know the escapings they declared.
		found = append(found, protocol.CheckReferences(chain)...)
	}
	return chains, found, nil
}

// inputsOf is the schema of the protocol's inputs; without one, an empty schema.
func inputsOf(chain protocol.Chain) json.RawMessage {
	if len(chain.Inputs) == 0 {
		return json.RawMessage("{}")
	}
	return chain.Inputs
}

func (l withSetup) validate(ctx context.Context, use string, s *protocol.Step) ([]protocol.Diagnostic, error) {
	if _, bad := run.Digest(s.Challenge); bad != nil {
		return []protocol.Diagnostic{*s.Problem("", "the challenge has no canonical form: "+bad.Error())}, nil //nolint:nilerr // a finding, not a failure
	}
	drv, ok := l.Drivers.Challenge(use)
	if !ok {
		return nil, fault.New(fault.DriverUnavailable, "driver %s is not configured", use)
	}
	res, err := l.judged.validate(ctx, drv, use, s.Challenge)
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
func (l *Library) existing(ctx context.Context, c access.Caller, chain protocol.Chain, force bool) (*protocol.Chain, error) {
	old, err := l.stored(ctx, chain)
	switch {
	case err != nil || force:
		return old, err
	case old != nil:
		return nil, duplicate(*old)
	}
	err = l.similar(ctx, c, chain)
	if fault.CodeOf(err) != fault.SimilarMemoryFound {
		return nil, err
	}
	// What is so similar may be the same, stored by another a moment ago.
	if old, failed := l.stored(ctx, chain); failed == nil && old != nil {
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
		WithCall(api.ToolDump, map[string]any{"uri": protocol.URI(old.Steps[0].UUID), "protocol": true})
}

// similar refuses what is nearly another protocol.
func (l *Library) similar(ctx context.Context, c access.Caller, chain protocol.Chain) error {
	hits, err := l.store.Searcher.Search(ctx, Query{Text: chain.Title, Spaces: c.Spaces(), Limit: 1, Embedding: l.meanings(ctx, []string{chain.Title})[0]})
	if err != nil {
		return fmt.Errorf("look for protocols similar to %q: %w", chain.Title, err)
	}
	if len(hits) == 0 || hits[0].Score < l.opt.SimilarThreshold {
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
		WithCall(api.ToolDump, map[string]any{"uri": uri, "protocol": true})
}

// Digest identifies the content of a chain.
func Digest(chain protocol.Chain) (string, error) {
	b, err := json.Marshal(chain)
	if err != nil {
		return "", fmt.Errorf("encode protocol %q: %w", chain.Title, err)
	}
	return run.Digest(b)
}
