package qdrant

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// titlesPage is how many titles are read at once to be put in order.
const titlesPage = 1000

func notFound(what, id string) error { return fault.New(fault.NotFound, "no %s %q", what, id) }

// first returns the manifest whose space comes first.
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
func (s *Store) manifests(points []*pb.RetrievedPoint) ([]manifest, error) {
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

// readFields of a manifest are enough to give the chain.
var readFields = []string{fieldKind, fieldSpace, fieldChainID, fieldRevision, fieldDocument}

// whole decodes the chain of a manifest that was read with readFields.
func (s *Store) whole(m manifest) (protocol.Chain, error) {
	c, err := s.chain(m, m.document)
	c.Revision = m.revision
	return c, err
}

// outlined decodes the outline of a manifest.
func (s *Store) outlined(m manifest) (protocol.Chain, error) {
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
	if err := s.prepare(ctx); err != nil {
		return protocol.Chain{}, 0, err
	}
	f := all(is(fieldKind, kindManifest), in(fieldSpace, spaces), is(fieldSteps, stepUUID))
	points, _, err := s.find(ctx, s.names().protocols(), f, len(spaces), nil, readFields...)
	if err != nil {
		return protocol.Chain{}, 0, err
	}
	found, err := s.manifests(points)
	if err != nil {
		return protocol.Chain{}, 0, err
	}
	m, ok := first(spaces, found)
	if !ok {
		return protocol.Chain{}, 0, missing
	}
	c, err := s.whole(m)
	if err != nil {
		return protocol.Chain{}, 0, err
	}
	i := slices.IndexFunc(c.Steps, func(step protocol.Step) bool { return step.UUID == stepUUID })
	if i < 0 {
		return protocol.Chain{}, 0, s.damaged(m.key, fmt.Errorf("it has no step %s", stepUUID))
	}
	return c, i, nil
}

// Chain implements library.Protocols.
func (s *Store) Chain(ctx context.Context, spaces []string, id string) (protocol.Chain, error) {
	found, err := s.ofChain(ctx, spaces, id, readFields...)
	if err != nil {
		return protocol.Chain{}, err
	}
	found = slices.DeleteFunc(found, func(m manifest) bool { return !m.live() })
	m, ok := first(spaces, found)
	if !ok {
		return protocol.Chain{}, notFound("protocol", id)
	}
	return s.whole(m)
}

// ofChain reads the manifests that a chain has in the spaces.
func (s *Store) ofChain(ctx context.Context, spaces []string, id string, fields ...string) ([]manifest, error) {
	if err := s.prepare(ctx); err != nil {
		return nil, err
	}
	keys := make([]string, len(spaces))
	for i, space := range spaces {
		keys[i] = manifestID(space, id)
	}
	points, err := s.get(ctx, s.names().protocols(), keys, fields...)
	if err != nil {
		return nil, err
	}
	return s.manifests(points)
}

// Former implements library.Protocols.
func (s *Store) Former(ctx context.Context, spaces []string, stepUUID string) (library.Former, error) {
	missing := notFound("step", stepUUID)
	if len(spaces) == 0 {
		return library.Former{}, missing
	}
	if err := s.prepare(ctx); err != nil {
		return library.Former{}, err
	}
	// Both together: a step that moved to another chain is not a former one.
	f := all(in(fieldSpace, spaces), in(fieldKind, []string{kindManifest, kindDeleted}),
		nested(anyOf(is(fieldFormer, stepUUID), is(fieldSteps, stepUUID))))
	points, _, err := s.find(ctx, s.names().protocols(), f, titlesPage, nil,
		fieldKind, fieldSpace, fieldChainID, fieldRevision, fieldOutline, fieldSteps, fieldLog)
	if err != nil {
		return library.Former{}, err
	}
	found, err := s.manifests(points)
	if err != nil {
		return library.Former{}, err
	}
	held := map[string]bool{}
	for _, m := range found {
		held[m.space] = held[m.space] || slices.Contains(m.steps, stepUUID)
	}
	found = slices.DeleteFunc(found, func(m manifest) bool { return held[m.space] })
	// The one that was changed last is the one that held it last.
	slices.SortFunc(found, func(a, b manifest) int { return cmp.Compare(b.lastSaved(), a.lastSaved()) })
	m, ok := first(spaces, found)
	if !ok {
		return library.Former{}, missing
	}
	c, err := s.outlined(m)
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

// Count implements library.Protocols.
func (s *Store) Count(ctx context.Context, space string) (int, error) {
	if err := s.prepare(ctx); err != nil {
		return 0, err
	}
	return s.countManifests(ctx, []string{space})
}

func (s *Store) countManifests(ctx context.Context, spaces []string) (int, error) {
	n, err := call(ctx, s, func(ctx context.Context) (uint64, error) {
		return s.client.Count(ctx, &pb.CountPoints{
			CollectionName: s.names().protocols(), Exact: pb.PtrOf(true), ReadConsistency: newest,
			Filter: all(is(fieldKind, kindManifest), in(fieldSpace, spaces)),
		})
	})
	return int(min(n, math.MaxInt32)), err
}

// listed is one chain in the order of a list.
type listed struct {
	key       string
	title, id string
	titleKey  int64
}

func compareListed(a, b listed) int {
	return cmp.Or(strings.Compare(a.title, b.title), strings.Compare(a.id, b.id))
}

// List implements library.Protocols.
func (s *Store) List(ctx context.Context, space, cursor string, limit int) ([]protocol.Chain, string, error) {
	if limit < 1 {
		return nil, "", fault.New(fault.InvalidArgument, "a list of at most %d protocols", limit)
	}
	after, err := parseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	if err := s.prepare(ctx); err != nil {
		return nil, "", err
	}
	limit = min(limit, 1<<20)
	page, err := s.listed(ctx, space, after, limit+1) // one more, to know whether there is a next page
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].cursor()
	}
	chains, err := s.outlines(ctx, page)
	return chains, next, err
}

// listed returns the chains of a space that follow a place, in order. The
// server orders by the beginnings of titles; those that begin alike are put in
// order here.
func (s *Store) listed(ctx context.Context, space string, after *listed, limit int) ([]listed, error) {
	var page []listed
	from := int64(math.MinInt64)
	if after != nil {
		alike, err := s.alike(ctx, space, after.titleKey)
		if err != nil {
			return nil, err
		}
		for _, l := range alike {
			if compareListed(l, *after) > 0 {
				page = append(page, l)
			}
		}
		from = after.titleKey
	}
	for len(page) < limit {
		more, last, err := s.titlesAfter(ctx, space, from)
		if err != nil {
			return nil, err
		}
		page = append(page, more...)
		if last == from {
			break
		}
		from = last
	}
	return page[:min(len(page), limit)], nil
}

var titleFields = []string{fieldTitle, fieldChainID, fieldTitleKey}

func listedOf(points []*pb.RetrievedPoint) []listed {
	out := make([]listed, len(points))
	for i, p := range points {
		v := p.GetPayload()
		out[i] = listed{
			key: p.GetId().GetUuid(), title: v[fieldTitle].GetStringValue(), id: v[fieldChainID].GetStringValue(), titleKey: v[fieldTitleKey].GetIntegerValue(),
		}
	}
	return out
}

// alike are the chains whose titles begin with the bytes of the key, in order.
func (s *Store) alike(ctx context.Context, space string, key int64) ([]listed, error) {
	var out []listed
	f := all(is(fieldKind, kindManifest), is(fieldSpace, space), pb.NewMatchInt(fieldTitleKey, key))
	err := s.each(ctx, s.names().protocols(), f, titlesPage, titleFields, func(points []*pb.RetrievedPoint) error {
		out = append(out, listedOf(points)...)
		return nil
	})
	slices.SortFunc(out, compareListed)
	return out, err
}

// titlesAfter returns chains in order whose title keys are greater, complete up
// to the key it also returns; that is the one given when there are no more.
func (s *Store) titlesAfter(ctx context.Context, space string, key int64) ([]listed, int64, error) {
	f := all(is(fieldKind, kindManifest), is(fieldSpace, space))
	if key != math.MinInt64 {
		f.Must = append(f.Must, pb.NewRange(fieldTitleKey, &pb.Range{Gt: pb.PtrOf(float64(key))}))
	}
	points, err := call(ctx, s, func(ctx context.Context) ([]*pb.RetrievedPoint, error) {
		return s.client.Scroll(ctx, &pb.ScrollPoints{
			CollectionName: s.names().protocols(), Filter: f, Limit: pb.PtrOf(uint32(titlesPage)), ReadConsistency: newest,
			WithPayload: pb.NewWithPayloadInclude(titleFields...), OrderBy: &pb.OrderBy{Key: fieldTitleKey, Direction: pb.Direction_Asc.Enum()},
		})
	})
	if err != nil || len(points) == 0 {
		return nil, key, err
	}
	out := listedOf(points)
	last := out[len(out)-1].titleKey
	if len(out) == titlesPage {
		// There may be more that begin like the last one.
		out = slices.DeleteFunc(out, func(l listed) bool { return l.titleKey == last })
		alike, err := s.alike(ctx, space, last)
		if err != nil {
			return nil, key, err
		}
		out = append(out, alike...)
	}
	slices.SortFunc(out, compareListed)
	return out, last, nil
}

// outlines reads the outlines in the order of the list. What was deleted
// meanwhile is left out.
func (s *Store) outlines(ctx context.Context, page []listed) ([]protocol.Chain, error) {
	var chains []protocol.Chain
	for part := range slices.Chunk(page, titlesPage) {
		keys := make([]string, len(part))
		for i, l := range part {
			keys[i] = l.key
		}
		points, err := s.get(ctx, s.names().protocols(), keys, fieldKind, fieldRevision, fieldOutline)
		if err != nil {
			return nil, err
		}
		found := make(map[string]manifest, len(points))
		for _, p := range points {
			m, err := s.manifestOf(p)
			if err != nil {
				return nil, err
			}
			found[m.key] = m
		}
		for _, key := range keys {
			m := found[key]
			if !m.live() {
				continue
			}
			c, err := s.outlined(m)
			if err != nil {
				return nil, err
			}
			chains = append(chains, c)
		}
	}
	return chains, nil
}

// cursor is the place as callers hold it. Ids have no line feeds.
func (l listed) cursor() string {
	return base64.RawURLEncoding.EncodeToString([]byte(l.id + "\n" + l.title))
}

func parseCursor(cursor string) (*listed, error) {
	if cursor == "" {
		return nil, nil
	}
	b, err := base64.RawURLEncoding.DecodeString(cursor)
	id, title, ok := strings.Cut(string(b), "\n")
	if err != nil || !ok {
		return nil, fault.New(fault.InvalidArgument, "the cursor is not one of this list; start without one")
	}
	return &listed{id: id, title: title, titleKey: titleKey(title)}, nil
}
