package library

import (
	"context"
	"fmt"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// RevisionOf says how the version of a protocol that a run is pinned to stands to what
// is stored under its title now.
func RevisionOf(ctx context.Context, protocols Protocols, pinned protocol.Chain) (*api.ProtocolRevision, error) {
	r := &api.ProtocolRevision{Revision: pinned.Revision}
	now, err := protocols.Chain(ctx, []string{pinned.Space}, pinned.ID)
	switch {
	case fault.CodeOf(err) == fault.NotFound:
		return r, nil
	case err != nil:
		return nil, fmt.Errorf("look for the present version of %q: %w", pinned.Title, err)
	}
	r.Stored = now.Revision
	if r.Current = r.Stored == r.Revision; r.Current {
		return r, nil
	}
	was, err := pinned.ContentDigest()
	if err != nil {
		return nil, err
	}
	is, err := now.ContentDigest()
	r.Current = was == is
	return r, err
}
