package library

import (
	"context"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// HistoryReply lists the versions of a protocol, newest first.
type HistoryReply struct {
	ChainID  string    `json:"chain_id"`
	Title    string    `json:"title"`
	Space    string    `json:"space"` // as SpaceInfo.Name
	Deleted  bool      `json:"deleted"`
	Versions []Version `json:"versions"`
}

// VersionReply is one version of a protocol.
type VersionReply struct {
	ChainID  string `json:"chain_id"`
	Title    string `json:"title"`
	Revision int64  `json:"revision"`
	Document string `json:"markdown_doc"`
}

// History lists the versions of a protocol, also of a deleted one. The
// reference is a step's URI or UUID, a chain id, or the exact title.
func (l *Library) History(ctx context.Context, c access.Caller, ref string) (HistoryReply, error) {
	p, err := l.versions.of(ctx, c, ref)
	if err != nil {
		return HistoryReply{}, err
	}
	return HistoryReply{
		ChainID: p.id, Title: p.versions[0].Title, Space: spaceName(c, p.space), Deleted: p.versions[0].Deleted, Versions: p.versions,
	}, nil
}

// Version returns the version of a protocol with the revision, or for 0 the newest one.
func (l *Library) Version(ctx context.Context, c access.Caller, ref string, revision int64) (VersionReply, error) {
	p, err := l.versions.of(ctx, c, ref)
	if err != nil {
		return VersionReply{}, err
	}
	if revision == 0 {
		revision = p.newest(func(Version) bool { return true })
	}
	chain, err := l.versions.at(ctx, p, revision)
	if err != nil {
		return VersionReply{}, err
	}
	return VersionReply{ChainID: chain.ID, Title: chain.Title, Revision: revision, Document: protocol.Render(chain)}, nil
}

// versions finds and reads the histories of protocols.
type versions struct {
	catalog *catalog
	history ProtocolHistory
}

// past is the history of one protocol.
type past struct {
	id, space string
	versions  []Version // newest first, at least one
}

// newest returns the newest revision that matches and can be read; 0: there is
// none.
func (p past) newest(fits func(Version) bool) int64 {
	for _, v := range p.versions {
		if !v.Deleted && fits(v) {
			return v.Revision
		}
	}
	return 0
}

// at reads one revision of the past.
func (v versions) at(ctx context.Context, p past, revision int64) (protocol.Chain, error) {
	chain, err := v.history.Version(ctx, []string{p.space}, p.id, revision)
	if fault.CodeOf(err) == fault.NotFound {
		return chain, fault.New(fault.NotFound, "%q has no revision %d that can be read; `kairos protocols history %s` lists them", p.versions[0].Title, revision, p.id)
	}
	if err != nil {
		return chain, fmt.Errorf("read revision %d of %q: %w", revision, p.versions[0].Title, err)
	}
	return chain, nil
}

// of finds the history of the protocol that a reference names.
func (v versions) of(ctx context.Context, c access.Caller, ref string) (past, error) {
	if err := v.catalog.ready(ctx); err != nil {
		return past{}, err
	}
	ref = strings.TrimSpace(ref)
	if ref == "" {
		return past{}, fault.New(fault.InvalidArgument, "name a protocol by a step's URI, its id or its title")
	}
	places := []past{{id: protocol.ChainID(ref)}}
	if id, isURI := uuidIn(ref); isURI {
		chain, err := v.catalog.holder(ctx, c, id)
		switch {
		case err == nil:
			places = []past{{id: chain.ID, space: chain.Space}}
		case fault.CodeOf(err) != fault.NotFound:
			return past{}, err
		default:
			places = []past{{id: id}, places[0]}
		}
	}
	for _, p := range places {
		found, err := v.in(ctx, c, p)
		if fault.CodeOf(err) != fault.NotFound {
			return found, err
		}
	}
	return past{}, fault.New(fault.NotFound, "no protocol %q in your spaces, and there never was one", plain.Clip(ref, 200)).WithNext("%s", SearchFirst)
}

// uuidIn returns the UUID that a reference is, or ends in after a slash.
func uuidIn(ref string) (string, bool) {
	id, err := uuid.Parse(ref[strings.LastIndex(ref, "/")+1:])
	return id.String(), err == nil
}

// in reads the history of a chain in its space, or in the first of the caller's
// spaces that has one. Existing chains take precedence over deleted ones.
func (v versions) in(ctx context.Context, c access.Caller, p past) (past, error) {
	spaces := c.Spaces()
	if p.space != "" {
		spaces = []string{p.space}
	} else if chain, err := v.catalog.protocols.Chain(ctx, spaces, p.id); err == nil {
		spaces = []string{chain.Space}
	} else if fault.CodeOf(err) != fault.NotFound {
		return past{}, err
	}
	for _, space := range spaces {
		found, err := v.history.Versions(ctx, []string{space}, p.id)
		switch {
		case fault.CodeOf(err) == fault.NotFound || err == nil && len(found) == 0:
			continue
		case err != nil:
			return past{}, fmt.Errorf("read the history of %s: %w", p.id, err)
		}
		return past{id: p.id, space: space, versions: found}, nil
	}
	return past{}, fault.New(fault.NotFound, "no history of %s", p.id)
}
