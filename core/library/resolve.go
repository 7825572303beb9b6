package library

import (
	"context"
	"fmt"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// SearchFirst is what to do next where nothing is known by a URI.
const SearchFirst = "call kairos_search with what you want to do, and use a uri from its choices"

// FindStep resolves a URI that must name a step the caller can read.
func (l *Library) FindStep(ctx context.Context, c access.Caller, uri string) (protocol.Chain, int, error) {
	id, err := protocol.ParseURI(uri)
	if err != nil {
		return protocol.Chain{}, 0, fault.Wrap(err, fault.InvalidArgument, "%v", err).WithNext("%s", SearchFirst)
	}
	if err := l.Ready(ctx); err != nil {
		return protocol.Chain{}, 0, err
	}
	chain, i, err := l.store.Protocols.StepChain(ctx, c.Spaces(), id)
	if fault.CodeOf(err) == fault.NotFound {
		former, err := l.former(ctx, c, uri)
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

// former finds the protocol that a step once was of.
func (l *Library) former(ctx context.Context, c access.Caller, uri string) (Former, error) {
	id, err := protocol.ParseURI(uri)
	if err != nil {
		return Former{}, fault.Wrap(err, fault.InvalidArgument, "%v", err).WithNext("%s", SearchFirst)
	}
	f, err := l.store.Protocols.Former(ctx, c.Spaces(), id)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		return Former{}, fault.New(fault.NotFound, "no step or protocol %s in your spaces", uri).WithNext("%s", SearchFirst)
	case err != nil:
		return Former{}, fmt.Errorf("find what %s was: %w", uri, err)
	}
	return f, nil
}

// gone says where to look instead of a step that a protocol has no more.
func gone(uri string, f Former) *fault.Error {
	if f.Deleted {
		return fault.New(fault.NotFound, "the protocol %q, which %s was a step of, is deleted", f.Chain.Title, uri).
			WithNext("%s; `kairos restore %s` brings the deleted protocol back", SearchFirst, f.Chain.ID)
	}
	head := protocol.URI(f.Chain.Steps[0].UUID)
	return fault.New(fault.NotFound, "%s is not a step of the protocol %q any more: another version replaced the one that had it", uri, f.Chain.Title).
		With("uri", head).WithNext("call kairos_begin with %s to run the protocol as it is now, or kairos_dump with it to read it", head).
		WithCall(api.ToolBegin, map[string]any{"uri": head})
}

// ChainOf is the protocol that the URI names, for runs of it: they keep the
// steps as they were when they began, whatever became of the protocol.
func (l *Library) ChainOf(ctx context.Context, c access.Caller, uri string) (chain protocol.Chain, absent error, err error) {
	chain, _, err = l.FindStep(ctx, c, uri)
	if fault.CodeOf(err) != fault.NotFound {
		return chain, nil, err
	}
	f, unknown := l.former(ctx, c, uri)
	if unknown != nil {
		return chain, nil, unknown
	}
	return f.Chain, err, nil
}
