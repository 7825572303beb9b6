package library

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/drivers"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/rules"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// maxModel bounds the name of a model in bytes, because every protocol and every
// rating stores it.
const maxModel = 200

// Mint stores the protocols of a document, all or none. Findings have a line and a
// JSON pointer. If two calls mint one title at once, the second replaces the first
// if it has Force, and is refused otherwise.
func (l *Library) Mint(ctx context.Context, c access.Caller, in api.MintRequest) (_ api.MintReply, err error) {
	defer operated(l.opt.Observer, OperationStore, c, time.Now(), &err)
	ctx = access.InSpace(ctx, c.Space)
	space, err := mintSpace(c, in.Space)
	act := audit.Act{Action: audit.ProtocolMint, Space: space}
	if err != nil {
		return api.MintReply{}, l.opt.Audit.Refused(ctx, c, act, err)
	}
	doing, err := l.opt.Audit.Begin(ctx, c, act)
	if err != nil {
		return api.MintReply{}, err
	}
	defer doing.End(&err)
	return minting{library: l, spaces: c.Spaces(), force: in.Force}.mint(ctx, space, in, doing)
}

func (m minting) mint(ctx context.Context, space string, in api.MintRequest, doing *audit.Doing) (api.MintReply, error) {
	l := m.library
	if err := l.catalog.ready(ctx); err != nil {
		return api.MintReply{}, nothingStored(err)
	}
	leave, err := l.large.enter(ctx, len(in.Document))
	if err != nil {
		return api.MintReply{}, err
	}
	defer leave()
	j, release := hold(l.setups)
	defer release()
	chains, warnings, err := j.check(ctx, space, Text{Document: in.Document})
	if err != nil {
		return api.MintReply{}, err
	}
	for i := range chains {
		chains[i].Space, chains[i].ModelID = space, plain.Clip(in.ModelID, maxModel)
	}
	var stored []rewrite
	err = whileOvertaken(ctx, func() error {
		if stored, err = m.rewrites(ctx, chains, l.opt.Clock.Now()); err != nil {
			return nothingStored(err)
		}
		return l.catalog.save(ctx, stored...)
	})
	if err != nil {
		return api.MintReply{}, notStored(err)
	}
	reply := api.MintReply{Items: []api.MintItem{}, Status: "stored"}
	for _, w := range warnings {
		reply.Warnings = append(reply.Warnings, api.Diagnostic{
			Severity: w.Severity, Line: w.Line, Column: w.Column, Step: w.Step, Pointer: w.Pointer, Message: w.Message,
		})
	}
	doing.Note("protocols", strconv.Itoa(len(stored)))
	for i, w := range stored {
		doing.Add(protocol.URI(w.Chain.Steps[0].UUID))
		chains[i] = w.Chain
		reply.Items = append(reply.Items, items(w.Chain)...)
		l.ratings.rateStored(w, "kairos_mint")
	}
	worths := make([]string, len(chains), len(chains)+1)
	for i, chain := range chains {
		if worths[i] = j.Worth(drivers.Place{Space: space, Chain: chain}); len(chains) == 1 {
			worths[i] = plain.Capital(worths[i])
		} else {
			worths[i] = fmt.Sprintf("%q: %s", plain.Clip(chain.Title, maxTitleShown), worths[i])
		}
	}
	reply.Message = plain.Sentences(append(worths, l.meanings.add(ctx, chains...))...)
	reply.NextCall = api.BeginCall(reply.Items[0].URI, chains[0].Inputs)
	return reply, nil
}

// nothingStored adds to an error that nothing was stored because the store could
// not be read. A failed save reports its own outcome.
func nothingStored(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) || f.Code != fault.StoreUnavailable {
		return err
	}
	told := *f
	told.Message += "; nothing was stored"
	return &told
}

// notStored gives errors without a code of their own a code.
func notStored(err error) error {
	if fault.CodeOf(err) != fault.Internal {
		return err
	}
	return fault.Wrap(err, fault.StoreFailed, "the document could not be stored: %v", err)
}

// minting decides which stored protocols one mint replaces.
type minting struct {
	library *Library
	spaces  []string
	force   bool
}

// rewrites pairs the chains with the stored chains of the same titles.
func (m minting) rewrites(ctx context.Context, chains []protocol.Chain, now time.Time) ([]rewrite, error) {
	out := make([]rewrite, len(chains))
	looks := make(map[string]string, len(chains))
	for i, chain := range chains {
		look := lookOf(chain.Title)
		if other, twice := looks[look]; twice && !m.force {
			return nil, fault.New(fault.SimilarMemoryFound, "two protocols of the document have titles that look the same: %q and %q", plain.Clip(other, maxTitleShown), plain.Clip(chain.Title, maxTitleShown)).
				With("must_obey", true).WithNext("give one of them another title, or call kairos_mint with force_update if both are meant")
		}
		looks[look] = chain.Title
		old, err := m.existing(ctx, chain)
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
		out[i] = api.MintItem{URI: protocol.URI(s.UUID), MemoryUUID: s.UUID, Label: s.Label, Tags: append([]string{}, s.Tags...)} // never null: clients expect an array
	}
	return out
}

// Linted is what Lint found in a document.
type Linted struct {
	// Chains are its protocols, with the templates that their drivers allow.
	Chains []protocol.Chain
	// Worths say for each of them what its steps will be worth at least (run.Worth).
	Worths []string
	// Findings are in the order of the document.
	Findings []protocol.Diagnostic
	// BelieveModels notes the steps that may be proved by what a model writes,
	// although a driver could do them itself if a person allowed it.
	BelieveModels []protocol.Diagnostic
	// Demands are what the operator's rules demand, of the steps of which they demand anything.
	Demands []Demanded
}

// Demanded is what the operator's rules demand of a step.
type Demanded struct {
	Protocol string       `json:"protocol"` // its title
	Step     int          `json:"step"`     // 1-based
	Label    string       `json:"label"`
	Line     int          `json:"line,omitempty"` // of its heading
	Demand   rules.Demand `json:"demand"`
}

// LintInput is a document or a stored protocol, and the space in which it is judged.
type LintInput struct {
	Document string
	File     string          // titles a document that has no title (Text)
	Stored   *protocol.Chain // nil: Document
	// Space by its name or id; empty: not known, so that rules about the space are left out.
	Space string
}

// Lint returns the protocols of a document, every finding of the parser and of the
// challenge drivers, what the rules refuse in the space, and advice to the author.
func (l *Library) Lint(ctx context.Context, in LintInput) (found Linted, err error) {
	j, release := hold(l.setups)
	defer release()
	if in.Stored != nil {
		found.Chains = []protocol.Chain{in.Stored.Clone()}
	} else {
		found.Chains, found.Findings = protocol.ParseFile([]byte(in.Document), in.File)
	}
	found.Findings, err = j.findings(ctx, in.Space, found.Chains, found.Findings)
	for _, c := range found.Chains {
		at := drivers.Place{Space: in.Space, Chain: c}
		found.Findings = append(found.Findings, protocol.Advise(c, found.Findings)...)
		found.Worths = append(found.Worths, j.Worth(at))
		for i, s := range c.Steps {
			if note := j.BelievesModel(at, i); note != nil {
				found.BelieveModels = append(found.BelieveModels, *note)
			}
			if d := j.RulesAt(at, i); !d.Zero() {
				found.Demands = append(found.Demands, Demanded{c.Title, i + 1, s.Label, s.Line, d})
			}
		}
	}
	found.Findings = protocol.ForAuthors(found.Findings)
	protocol.SortDiagnostics(found.Findings)
	return found, err
}

// existing returns the chain that would be replaced, and refuses duplicates.
func (m minting) existing(ctx context.Context, chain protocol.Chain) (*protocol.Chain, error) {
	old, err := m.library.catalog.stored(ctx, chain)
	switch {
	case err != nil || m.force:
		return old, err
	case old != nil:
		return nil, duplicate(*old)
	}
	err = m.refuseSimilar(ctx, chain)
	if fault.CodeOf(err) != fault.SimilarMemoryFound {
		return nil, err
	}
	// A similar protocol may be the same one, stored by another call a moment ago.
	if old, failed := m.library.catalog.stored(ctx, chain); failed == nil && old != nil {
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

// refuseSimilar refuses a chain that is almost another protocol.
func (m minting) refuseSimilar(ctx context.Context, chain protocol.Chain) error {
	named, err := m.library.store.Searcher.Named(ctx, chain.Title, m.spaces)
	if err != nil {
		return fmt.Errorf("look for protocols similar to %q: %w", chain.Title, err)
	}
	if len(named) == 0 || named[0].Score < m.library.opt.SimilarThreshold {
		return nil
	}
	f := named[0]
	stored, err := m.library.store.Protocols.Chain(ctx, []string{f.Space}, f.ChainID)
	if fault.CodeOf(err) == fault.NotFound {
		return nil // it was deleted a moment ago
	}
	if err != nil {
		return fmt.Errorf("read the protocol %q: %w", f.Title, err)
	}
	uri := protocol.URI(f.UUID)
	return fault.New(fault.SimilarMemoryFound, "a very similar protocol is stored already: %q", f.Title).
		With("similarity_score", f.Score).With("must_obey", true).
		With("existing_memory", map[string]any{
			"uri": uri, "memory_uuid": f.UUID, "label": f.Label, "chain_label": f.Title, "score": f.Score, "total_steps": len(stored.Steps),
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
