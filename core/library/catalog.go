package library

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// catalog reads and stores protocols, and stores the built-in ones before the
// first use.
type catalog struct {
	protocols Protocols
	writer    ProtocolWriter
	observer  Observer
	clock     *clock.Clock

	seeding chan struct{} // holds one token: its owner may store the built-in protocols
	seeded  atomic.Bool   // they are stored
}

func newCatalog(store Store, opt Options) *catalog {
	k := &catalog{
		protocols: store.Protocols, writer: store.Writer, observer: opt.Observer, clock: opt.Clock, seeding: make(chan struct{}, 1),
	}
	k.seeding <- struct{}{}
	return k
}

// save stores all of the chains or none. fault.Conflict: another writer was first,
// so the chains were made from outdated versions.
func (k *catalog) save(ctx context.Context, rewrites ...rewrite) error {
	changes := make([]Change, len(rewrites))
	for i, w := range rewrites {
		changes[i] = w.Change
	}
	_, err := k.writer.SaveChains(ctx, changes)
	if fault.CodeOf(err) == fault.DuplicateChain {
		// The title was free a moment ago.
		return overtaken(err)
	}
	if err == nil {
		for _, c := range changes {
			k.observer.Stored(c.Chain.Space, len(c.Chain.Steps))
		}
	}
	return err
}

// stored returns the chain with the same title in the same space, or nil.
func (k *catalog) stored(ctx context.Context, chain protocol.Chain) (*protocol.Chain, error) {
	old, err := k.protocols.Chain(ctx, []string{chain.Space}, chain.ID)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look for the built-in protocol %q: %w", chain.Title, err)
	}
	return &old, nil
}

// step resolves a URI that must name a step the caller can read.
func (k *catalog) step(ctx context.Context, c access.Caller, uri string) (protocol.Chain, int, error) {
	id, err := protocol.ParseURI(uri)
	if err != nil {
		return protocol.Chain{}, 0, fault.Wrap(err, fault.InvalidArgument, "%v", err).WithNext("%s", SearchFirst)
	}
	if err := k.ready(ctx); err != nil {
		return protocol.Chain{}, 0, err
	}
	chain, i, err := k.protocols.StepChain(ctx, c.Spaces(), id)
	if fault.CodeOf(err) == fault.NotFound {
		former, err := k.former(ctx, c, uri)
		if err == nil {
			err = gone(uri, former)
		}
		return protocol.Chain{}, 0, err
	}
	if err != nil {
		return protocol.Chain{}, 0, fmt.Errorf("find %s: %w", uri, err)
	}
	return chain, i, nil
}

// former finds the protocol that a step used to belong to.
func (k *catalog) former(ctx context.Context, c access.Caller, uri string) (Former, error) {
	id, err := protocol.ParseURI(uri)
	if err != nil {
		return Former{}, fault.Wrap(err, fault.InvalidArgument, "%v", err).WithNext("%s", SearchFirst)
	}
	f, err := k.protocols.Former(ctx, c.Spaces(), id)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		return Former{}, fault.New(fault.NotFound, "no step or protocol %s in your spaces", uri).WithNext("%s", SearchFirst)
	case err != nil:
		return Former{}, fmt.Errorf("find the former protocol of %s: %w", uri, err)
	}
	return f, nil
}

// SearchFirst is the advice when a URI names nothing.
const SearchFirst = "call kairos_search with what you want to do, and use a uri from its choices"

// gone explains that a protocol no longer has a step, and where to look instead.
func gone(uri string, f Former) *fault.Error {
	if f.Deleted {
		return fault.New(fault.NotFound, "the protocol %q, which %s was a step of, is deleted", f.Chain.Title, uri).
			WithNext("%s; `kairos protocols restore %s` brings the deleted protocol back", SearchFirst, f.Chain.ID)
	}
	head := protocol.URI(f.Chain.Steps[0].UUID)
	return fault.New(fault.NotFound, "%s is not a step of the protocol %q any more: another version replaced the one that had it", uri, f.Chain.Title).
		With("uri", head).WithNext("call kairos_begin with %s to run the protocol as it is now, or kairos_dump with it to read it", head).
		WithCall(api.ToolBegin, map[string]any{"uri": head})
}

// chainOf returns the protocol that the URI names, also one that has been deleted:
// runs keep the steps as they were when they began. absent says why the URI cannot
// be begun any more.
func (k *catalog) chainOf(ctx context.Context, c access.Caller, uri string) (chain protocol.Chain, absent error, err error) {
	chain, _, err = k.step(ctx, c, uri)
	if fault.CodeOf(err) != fault.NotFound {
		return chain, nil, err
	}
	f, unknown := k.former(ctx, c, uri)
	if unknown != nil {
		return chain, nil, unknown
	}
	return f.Chain, err, nil
}

// holder returns the chain that has the step, or used to have it.
func (k *catalog) holder(ctx context.Context, c access.Caller, step string) (protocol.Chain, error) {
	chain, _, err := k.protocols.StepChain(ctx, c.Spaces(), step)
	if fault.CodeOf(err) == fault.NotFound {
		f, err := k.protocols.Former(ctx, c.Spaces(), step)
		return f.Chain, err
	}
	return chain, err
}

// listPage is how many protocols are read at a time.
const listPage = 200

// each calls do with the outline of every protocol of the space, in the
// order of List.
func (k *catalog) each(ctx context.Context, space string, do func(protocol.Chain) error) error {
	for cursor := ""; ; {
		chains, next, err := k.protocols.List(ctx, space, cursor, listPage)
		if err != nil {
			return fmt.Errorf("list space %s: %w", space, err)
		}
		for _, chain := range chains {
			if err := do(chain); err != nil {
				return err
			}
		}
		if next == "" {
			return nil
		}
		cursor = next
	}
}

// titles lists at most limit protocols of the space after the cursor.
func (k *catalog) titles(ctx context.Context, space, cursor string, limit int) (out []api.ChainInfo, next string, err error) {
	for limit > 0 {
		var chains []protocol.Chain
		if chains, next, err = k.protocols.List(ctx, space, cursor, min(limit, listPage)); err != nil {
			return nil, "", fmt.Errorf("list space %s: %w", space, err)
		}
		for _, ch := range chains {
			out = append(out, api.ChainInfo{ChainID: ch.ID, URI: protocol.URI(ch.Steps[0].UUID), Title: ch.Title, StepCount: len(ch.Steps)})
		}
		limit -= len(chains)
		if next == "" || len(chains) == 0 {
			break
		}
		cursor = next
	}
	return out, next, nil
}
