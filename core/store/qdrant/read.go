package qdrant

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

func notFound(what, id string) error { return fault.New(fault.NotFound, "no %s %q", what, id) }

// first returns the manifest of the first of the spaces.
func first(spaces []string, found []manifest) (manifest, bool) {
	for _, space := range spaces {
		for _, m := range found {
			if m.space == space {
				return m, true
			}
		}
	}
	return manifest{}, false
}

// manifests decodes points.
func (s *server) manifests(points []*pb.RetrievedPoint) ([]manifest, error) {
	found := make([]manifest, 0, len(points))
	for _, p := range points {
		m, err := s.manifestOf(p)
		if err != nil {
			return nil, err
		}
		found = append(found, m)
	}
	return found, nil
}

// readFields are the fields of a manifest that contain the chain.
var readFields = []string{fieldKind, fieldSpace, fieldChainID, fieldRevision, fieldDocument}

// whole decodes the chain of a manifest that was read with readFields.
func (s *server) whole(m manifest) (protocol.Chain, error) {
	c, err := s.chain(m, m.document)
	c.Revision = m.revision
	return c, err
}

// outlined decodes the outline of a manifest.
func (s *server) outlined(m manifest) (protocol.Chain, error) {
	c, err := s.chain(m, m.outline)
	c.Revision = m.revision
	return c, err
}

// StepChain implements library.Protocols.
func (s *Store) StepChain(ctx context.Context, spaces []string, stepUUID string) (protocol.Chain, int, error) {
	missing := notFound("step", stepUUID)
	if len(spaces) == 0 {
		return protocol.Chain{}, 0, missing
	}
	if err := s.schema.prepare(ctx); err != nil {
		return protocol.Chain{}, 0, err
	}
	f := all(is(fieldKind, kindManifest), in(fieldSpace, spaces), is(fieldSteps, stepUUID))
	points, _, err := s.server.find(ctx, s.server.names.protocols(), f, len(spaces), nil, readFields...)
	if err != nil {
		return protocol.Chain{}, 0, err
	}
	found, err := s.server.manifests(points)
	if err != nil {
		return protocol.Chain{}, 0, err
	}
	m, ok := first(spaces, found)
	if !ok {
		return protocol.Chain{}, 0, missing
	}
	c, err := s.server.whole(m)
	if err != nil {
		return protocol.Chain{}, 0, err
	}
	i := slices.IndexFunc(c.Steps, func(step protocol.Step) bool { return step.UUID == stepUUID })
	if i < 0 {
		return protocol.Chain{}, 0, s.server.damaged(m.key, fmt.Errorf("it has no step %s", stepUUID))
	}
	return c, i, nil
}

// Chain implements library.Protocols.
func (s *Store) Chain(ctx context.Context, spaces []string, id string) (protocol.Chain, error) {
	found, err := s.chains.ofSpaces(ctx, spaces, id, readFields...)
	if err != nil {
		return protocol.Chain{}, err
	}
	found = slices.DeleteFunc(found, func(m manifest) bool { return !m.live() })
	m, ok := first(spaces, found)
	if !ok {
		return protocol.Chain{}, notFound("protocol", id)
	}
	return s.server.whole(m)
}

// chains reads the manifests of chains.
type chains struct {
	server *server
	schema *schema
}

// ofSpaces reads the manifests that a chain has in the spaces.
func (cs chains) ofSpaces(ctx context.Context, spaces []string, id string, fields ...string) ([]manifest, error) {
	if err := cs.schema.prepare(ctx); err != nil {
		return nil, err
	}
	keys := make([]string, len(spaces))
	for i, space := range spaces {
		keys[i] = manifestID(space, id)
	}
	points, err := cs.server.get(ctx, cs.server.names.protocols(), keys, fields...)
	if err != nil {
		return nil, err
	}
	return cs.server.manifests(points)
}

// Former implements library.Protocols.
func (s *Store) Former(ctx context.Context, spaces []string, stepUUID string) (library.Former, error) {
	missing := notFound("step", stepUUID)
	if len(spaces) == 0 {
		return library.Former{}, missing
	}
	if err := s.schema.prepare(ctx); err != nil {
		return library.Former{}, err
	}
	// One query for both: a step that moved to another chain is not a former one.
	f := all(in(fieldSpace, spaces), in(fieldKind, []string{kindManifest, kindDeleted}),
		nested(anyOf(is(fieldFormer, stepUUID), is(fieldSteps, stepUUID))))
	points, _, err := s.server.find(ctx, s.server.names.protocols(), f, titlesPage, nil,
		fieldKind, fieldSpace, fieldChainID, fieldRevision, fieldOutline, fieldSteps, fieldLog)
	if err != nil {
		return library.Former{}, err
	}
	found, err := s.server.manifests(points)
	if err != nil {
		return library.Former{}, err
	}
	held := map[string]bool{}
	for _, m := range found {
		held[m.space] = held[m.space] || slices.Contains(m.steps, stepUUID)
	}
	found = slices.DeleteFunc(found, func(m manifest) bool { return held[m.space] })
	// The chain that was changed last is the last one that had the step.
	slices.SortFunc(found, func(a, b manifest) int { return cmp.Compare(b.lastSaved(), a.lastSaved()) })
	m, ok := first(spaces, found)
	if !ok {
		return library.Former{}, missing
	}
	c, err := s.server.outlined(m)
	if !m.live() {
		c.Revision = m.lastChain()
	}
	return library.Former{Chain: c, Deleted: !m.live()}, err
}

func (m manifest) lastSaved() int64 {
	if len(m.log) == 0 {
		return 0
	}
	return m.log[0].Saved
}

// lastChain is the newest revision that is not a deletion.
func (m manifest) lastChain() int64 {
	for _, r := range m.log {
		if !r.Deleted {
			return r.Number
		}
	}
	return m.revision
}
