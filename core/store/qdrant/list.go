package qdrant

import (
	"cmp"
	"context"
	"encoding/base64"
	"math"
	"slices"
	"strings"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// titlesPage is how many titles are read at once for sorting.
const titlesPage = 1000

func (cs chains) count(ctx context.Context, spaces []string) (int, error) {
	n, err := call(ctx, cs.server, func(ctx context.Context) (uint64, error) {
		return cs.server.client.Count(ctx, &pb.CountPoints{
			CollectionName: cs.server.names.protocols(), Exact: pb.PtrOf(true), ReadConsistency: newest,
			Filter: all(is(fieldKind, kindManifest), in(fieldSpace, spaces)),
		})
	})
	return int(min(n, math.MaxInt32)), err
}

// listed is an entry of a list.
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
	if err := s.schema.prepare(ctx); err != nil {
		return nil, "", err
	}
	limit = min(limit, 1<<20)
	page, err := s.chains.listed(ctx, space, after, limit+1) // one more, to know whether there is a next page
	if err != nil {
		return nil, "", err
	}
	next := ""
	if len(page) > limit {
		page = page[:limit]
		next = page[limit-1].cursor()
	}
	chains, err := s.chains.outlines(ctx, page)
	return chains, next, err
}

// listed returns the chains of a space after a place, in order. The server sorts
// by prefixes of titles; chains with equal prefixes are sorted here.
func (cs chains) listed(ctx context.Context, space string, after *listed, limit int) ([]listed, error) {
	var page []listed
	from := int64(math.MinInt64)
	if after != nil {
		alike, err := cs.alike(ctx, space, after.titleKey)
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
		more, last, err := cs.titlesAfter(ctx, space, from)
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

// alike returns the chains whose titles begin with the bytes of the key, in order.
func (cs chains) alike(ctx context.Context, space string, key int64) ([]listed, error) {
	var out []listed
	f := all(is(fieldKind, kindManifest), is(fieldSpace, space), pb.NewMatchInt(fieldTitleKey, key))
	err := cs.server.each(ctx, cs.server.names.protocols(), f, titlesPage, titleFields, func(points []*pb.RetrievedPoint) error {
		out = append(out, listedOf(points)...)
		return nil
	})
	slices.SortFunc(out, compareListed)
	return out, err
}

// titlesAfter returns chains with greater title keys in order, complete up to the
// returned key; that is the given key if there are no more.
func (cs chains) titlesAfter(ctx context.Context, space string, key int64) ([]listed, int64, error) {
	f := all(is(fieldKind, kindManifest), is(fieldSpace, space))
	if key != math.MinInt64 {
		f.Must = append(f.Must, pb.NewRange(fieldTitleKey, &pb.Range{Gt: pb.PtrOf(float64(key))}))
	}
	points, err := call(ctx, cs.server, func(ctx context.Context) ([]*pb.RetrievedPoint, error) {
		return cs.server.client.Scroll(ctx, &pb.ScrollPoints{
			CollectionName: cs.server.names.protocols(), Filter: f, Limit: pb.PtrOf(uint32(titlesPage)), ReadConsistency: newest,
			WithPayload: pb.NewWithPayloadInclude(titleFields...), OrderBy: &pb.OrderBy{Key: fieldTitleKey, Direction: pb.Direction_Asc.Enum()},
		})
	})
	if err != nil || len(points) == 0 {
		return nil, key, err
	}
	out := listedOf(points)
	last := out[len(out)-1].titleKey
	if len(out) == titlesPage {
		// There may be more with the same prefix as the last one.
		out = slices.DeleteFunc(out, func(l listed) bool { return l.titleKey == last })
		alike, err := cs.alike(ctx, space, last)
		if err != nil {
			return nil, key, err
		}
		out = append(out, alike...)
	}
	slices.SortFunc(out, compareListed)
	return out, last, nil
}

// outlines reads the outlines in the order of the list. Chains that were deleted
// meanwhile are left out.
func (cs chains) outlines(ctx context.Context, page []listed) ([]protocol.Chain, error) {
	var chains []protocol.Chain
	for part := range slices.Chunk(page, titlesPage) {
		keys := make([]string, len(part))
		for i, l := range part {
			keys[i] = l.key
		}
		points, err := cs.server.get(ctx, cs.server.names.protocols(), keys, fieldKind, fieldRevision, fieldOutline)
		if err != nil {
			return nil, err
		}
		found := make(map[string]manifest, len(points))
		for _, p := range points {
			m, err := cs.server.manifestOf(p)
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
			c, err := cs.server.outlined(m)
			if err != nil {
				return nil, err
			}
			chains = append(chains, c)
		}
	}
	return chains, nil
}

// cursor encodes the place. Ids have no line feeds.
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

// Count implements library.Protocols.
func (s *Store) Count(ctx context.Context, space string) (int, error) {
	if err := s.schema.prepare(ctx); err != nil {
		return 0, err
	}
	return s.chains.count(ctx, []string{space})
}
