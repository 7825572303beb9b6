package qdrant

import (
	"context"
	"slices"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// withHistory finds the chain whose history is read: in the first space that has
// it, else in the first space that had it.
func (cs chains) withHistory(ctx context.Context, spaces []string, id string, fields ...string) (manifest, bool, error) {
	found, err := cs.ofSpaces(ctx, spaces, id, fields...)
	if err != nil {
		return manifest{}, false, err
	}
	found = slices.DeleteFunc(found, func(m manifest) bool { return len(m.log) == 0 })
	there := slices.DeleteFunc(slices.Clone(found), func(m manifest) bool { return !m.live() })
	if m, ok := first(spaces, there); ok {
		return m, true, nil
	}
	m, ok := first(spaces, found)
	return m, ok, nil
}

// Versions implements library.ProtocolHistory.
func (s *Store) Versions(ctx context.Context, spaces []string, id string) ([]library.Version, error) {
	m, ok, err := s.chains.withHistory(ctx, spaces, id, fieldKind, fieldSpace, fieldLog)
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, notFound("protocol", id)
	}
	versions := make([]library.Version, len(m.log))
	for i, r := range m.log {
		versions[i] = r.version()
	}
	return versions, nil
}

// Version implements library.ProtocolHistory.
func (s *Store) Version(ctx context.Context, spaces []string, id string, revision int64) (protocol.Chain, error) {
	missing := notFound("that version of protocol", id)
	m, ok, err := s.chains.withHistory(ctx, spaces, id, append([]string{fieldLog}, readFields...)...)
	if err != nil {
		return protocol.Chain{}, err
	}
	if !ok {
		return protocol.Chain{}, missing
	}
	if m.live() && m.revision == revision {
		return s.server.whole(m)
	}
	for _, r := range m.log {
		if r.Number != revision || r.Deleted {
			continue
		}
		points, err := s.server.get(ctx, s.server.names.protocols(), []string{versionID(r.Token, m.key)}, fieldDocument)
		if err != nil {
			return protocol.Chain{}, err
		}
		if len(points) == 1 {
			c, err := s.server.chain(m, points[0].GetPayload()[fieldDocument].GetStringValue())
			c.Revision = revision
			return c, err
		}
	}
	return protocol.Chain{}, missing
}
