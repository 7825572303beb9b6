package metrics

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/search"
	"github.com/kairos-mcp/kairos/core/usecases"
)

// storeState is what is known of the store of protocols.
type storeState struct {
	down      atomic.Bool
	protocols atomic.Pointer[library.Protocols] // undecorated, for the sizes
}

// Store returns the store with everything that keeps protocols counted. The
// names of the series are those of Qdrant, whichever store it is.
func (m *Metrics) Store(s usecases.Store) usecases.Store {
	if s.Protocols != nil {
		plain := s.Protocols
		m.store.protocols.Store(&plain)
		s.Protocols = protocols{plain, m}
	}
	if s.Writer != nil {
		s.Writer = writer{s.Writer, m}
	}
	if s.Versions != nil {
		s.Versions = versions{s.Versions, m}
	}
	if s.Searcher != nil {
		s.Searcher = searcher{s.Searcher, m}
	}
	if s.Vectors != nil {
		s.Vectors = vectors{s.Vectors, m}
	}
	if s.Ratings != nil {
		s.Ratings = ratings{s.Ratings, m}
	}
	return s
}

// The operations, by the names that Qdrant has for them.
const (
	opSearch   = "search"
	opRetrieve = "retrieve"
	opScroll   = "scroll"
	opCount    = "count"
	opUpsert   = "upsert"
	opUpdate   = "update"
	opDelete   = "delete"
)

// stored counts a call of the store. A negative answer
// counts as a success.
func (m *Metrics) stored(ctx context.Context, operation, space string, began time.Time, err error) time.Duration {
	took := time.Since(began)
	if space == "" {
		space = access.SpaceOf(ctx)
	}
	tenant := m.bounds.tenant(space)
	failed := broken(err)
	label := "success"
	if failed {
		label = "error"
	}
	m.families.storeOperations.WithLabelValues(operation, label, tenant).Inc()
	m.families.storeDuration.WithLabelValues(operation, tenant).Observe(took.Seconds())
	switch {
	case failed && ctx.Err() == nil:
		m.store.down.Store(true)
		m.families.storeErrors.WithLabelValues(tenant).Inc()
	case !failed && m.store.down.CompareAndSwap(true, false):
		m.families.storeReconnects.WithLabelValues(tenant).Inc()
	}
	return took
}

// broken: the store itself failed, rather than refused.
func broken(err error) bool {
	return err != nil && fault.RowOf(fault.CodeOf(err)).Broken && !errors.Is(err, context.Canceled)
}

func one(spaces []string) string {
	if len(spaces) == 0 {
		return ""
	}
	return spaces[0]
}

type protocols struct {
	library.Protocols
	m *Metrics
}

func (s protocols) StepChain(ctx context.Context, spaces []string, stepUUID string) (c protocol.Chain, i int, err error) {
	defer func(began time.Time) { s.m.stored(ctx, opRetrieve, one(spaces), began, err) }(time.Now())
	return s.Protocols.StepChain(ctx, spaces, stepUUID)
}

func (s protocols) Chain(ctx context.Context, spaces []string, id string) (c protocol.Chain, err error) {
	defer func(began time.Time) { s.m.stored(ctx, opRetrieve, one(spaces), began, err) }(time.Now())
	return s.Protocols.Chain(ctx, spaces, id)
}

func (s protocols) Former(ctx context.Context, spaces []string, stepUUID string) (f library.Former, err error) {
	defer func(began time.Time) { s.m.stored(ctx, opRetrieve, one(spaces), began, err) }(time.Now())
	return s.Protocols.Former(ctx, spaces, stepUUID)
}

func (s protocols) List(ctx context.Context, space, cursor string, limit int) (chains []protocol.Chain, next string, err error) {
	defer func(began time.Time) { s.m.stored(ctx, opScroll, space, began, err) }(time.Now())
	return s.Protocols.List(ctx, space, cursor, limit)
}

func (s protocols) Count(ctx context.Context, space string) (n int, err error) {
	defer func(began time.Time) { s.m.stored(ctx, opCount, space, began, err) }(time.Now())
	return s.Protocols.Count(ctx, space)
}

type writer struct {
	library.ProtocolWriter
	m *Metrics
}

func (s writer) SaveChains(ctx context.Context, changes []library.Change) (revisions []int64, err error) {
	began, space := time.Now(), ""
	if len(changes) > 0 {
		space = changes[0].Chain.Space
	}
	revisions, err = s.ProtocolWriter.SaveChains(ctx, changes)
	took := s.m.stored(ctx, opUpsert, space, began, err)
	s.m.families.upsertDuration.WithLabelValues(s.m.bounds.tenant(space)).Observe(took.Seconds())
	return revisions, err
}

func (s writer) DeleteChain(ctx context.Context, space, id string, replaces int64) (err error) {
	defer func(began time.Time) { s.m.stored(ctx, opDelete, space, began, err) }(time.Now())
	return s.ProtocolWriter.DeleteChain(ctx, space, id, replaces)
}

type versions struct {
	library.ProtocolHistory
	m *Metrics
}

func (s versions) Versions(ctx context.Context, spaces []string, id string) (all []library.Version, err error) {
	defer func(began time.Time) { s.m.stored(ctx, opRetrieve, one(spaces), began, err) }(time.Now())
	return s.ProtocolHistory.Versions(ctx, spaces, id)
}

func (s versions) Version(ctx context.Context, spaces []string, id string, revision int64) (c protocol.Chain, err error) {
	defer func(began time.Time) { s.m.stored(ctx, opRetrieve, one(spaces), began, err) }(time.Now())
	return s.ProtocolHistory.Version(ctx, spaces, id, revision)
}

type searcher struct {
	library.Searcher
	m *Metrics
}

func (s searcher) Search(ctx context.Context, q library.Query) (search.Answer, error) {
	began, space := time.Now(), one(q.Spaces)
	found, err := s.Searcher.Search(ctx, q)
	took := s.m.stored(ctx, opSearch, space, began, err)
	s.m.families.queryDuration.WithLabelValues(s.m.bounds.tenant(space)).Observe(took.Seconds())
	return found, err
}

type vectors struct {
	library.Vectors
	m *Metrics
}

func (s vectors) Known(ctx context.Context, model string, hashes []string) (known map[string][]float32, err error) {
	defer func(began time.Time) { s.m.stored(ctx, opRetrieve, "", began, err) }(time.Now())
	return s.Vectors.Known(ctx, model, hashes)
}

func (s vectors) Missing(ctx context.Context, model string, limit int) (missing []library.Passage, err error) {
	defer func(began time.Time) { s.m.stored(ctx, opScroll, "", began, err) }(time.Now())
	return s.Vectors.Missing(ctx, model, limit)
}

func (s vectors) SaveVectors(ctx context.Context, model string, all map[string][]float32) error {
	began := time.Now()
	err := s.Vectors.SaveVectors(ctx, model, all)
	took := s.m.stored(ctx, opUpsert, "", began, err)
	s.m.families.upsertDuration.WithLabelValues(s.m.bounds.tenant(access.SpaceOf(ctx))).Observe(took.Seconds())
	for _, v := range all {
		s.m.families.vectorDimension.WithLabelValues().Set(float64(len(v)))
		break
	}
	return err
}

type ratings struct {
	library.Ratings
	m *Metrics
}

func (s ratings) Rate(ctx context.Context, space string, all []library.Rating) (err error) {
	defer func(began time.Time) { s.m.stored(ctx, opUpdate, space, began, err) }(time.Now())
	return s.Ratings.Rate(ctx, space, all)
}

func (s ratings) Quality(ctx context.Context, space string, steps []string) (q map[string]api.Quality, err error) {
	defer func(began time.Time) { s.m.stored(ctx, opRetrieve, space, began, err) }(time.Now())
	return s.Ratings.Quality(ctx, space, steps)
}
