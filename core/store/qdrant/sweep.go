package qdrant

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	pb "github.com/qdrant/go-client/qdrant"
)

// sweepEvery is how often an open store looks for the remains of interrupted
// saves.
const sweepEvery = time.Hour

// sweeper completes or undoes interrupted saves.
type sweeper struct {
	server  *server
	index   *searchIndex
	steps   stepPoints
	started atomic.Bool
}

// start sweeps in the background until Close.
func (sw *sweeper) start() {
	if sw.started.Swap(true) {
		return
	}
	sw.server.work.Go(func() {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			err := sw.steps.showAll(sw.server.closing)
			if err == nil {
				err = sw.sweep(sw.server.closing)
			}
			if err != nil && sw.server.closing.Err() == nil {
				sw.server.log.Warn("interrupted saves could not be swept", "qdrant", sw.server.at.String(), "error", err)
			}
			select {
			case <-tick.C:
			case <-sw.server.closing.Done():
				return
			}
		}
	})
}

// Sweep completes or undoes interrupted saves that are older than
// Options.SweepAge. Their remains are invisible before and after.
func (s *Store) Sweep(ctx context.Context) error {
	if !s.server.ready.Load() && s.index.state.Load() == nil {
		if err := s.schema.prepare(ctx); err != nil {
			return err
		}
	}
	return s.sweeper.sweep(ctx)
}

func (sw *sweeper) sweep(ctx context.Context) error {
	// A jump of the clock must not make a save in progress look old.
	now := sw.server.options.Clock.Wall()
	if settled := sw.server.options.Clock.Settled(); settled.Before(now) {
		now = settled
	}
	until := pb.NewRange(fieldWritten, &pb.Range{Lte: pb.PtrOf(float64(now.Add(-sw.server.options.SweepAge).UnixMilli()))})
	fields := []string{fieldToken, fieldChains, fieldReplaced}
	err := sw.server.each(ctx, sw.server.names.protocols(), all(is(fieldKind, kindIntent), until), 16, fields, func(points []*pb.RetrievedPoint) error {
		for _, p := range points {
			if err := sw.sweepIntent(ctx, p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := sw.index.mergeWords(ctx); err != nil {
		return err
	}
	return sw.server.update(ctx, sw.server.names.protocols(), remove(&pb.Filter{
		Must:    []*pb.Condition{is(fieldKind, kindPlaceholder), until},
		MustNot: []*pb.Condition{reserved(sw.server.options.Clock.Wall())},
	}))
}

// sweepIntent finishes one save: where its manifest is stored, what it has
// replaced is removed; where it is not, what it has written ahead is removed.
func (sw *sweeper) sweepIntent(ctx context.Context, p *pb.RetrievedPoint) error {
	left, err := sw.read(ctx, p)
	if err != nil {
		return err
	}
	ops, err := sw.steps.ops(ctx, left.chains)
	if err != nil {
		return err
	}
	protocols := sw.server.names.protocols()
	if err := sw.server.updateSoonSized(ctx, protocols, ops); err != nil {
		return err
	}
	if err := sw.index.removeReplaced(ctx, left.replaced); err != nil {
		return err
	}
	// It may have been interrupted before it detected a new index.
	if _, err := sw.index.write(ctx, left.entries, sw.server.options.Clock.Wall()); err != nil {
		return err
	}
	stray := all(is(fieldToken, left.token))
	for _, key := range left.committed {
		stray.MustNot = append(stray.MustNot, is(fieldChainKey, key))
	}
	if err := sw.server.update(ctx, sw.server.names.index(), remove(stray)); err != nil {
		return err
	}
	sw.server.log.InfoContext(ctx, "an interrupted save was swept",
		"qdrant", sw.server.at.String(), "chains", len(left.keys), "committed", len(left.committed))
	return sw.server.update(ctx, protocols, removeIDs(p.GetId().GetUuid()))
}

// leftover is an interrupted save: the contents of its intent and the state of its
// chains.
type leftover struct {
	token     string
	keys      []string          // of the chains that it changes
	committed []string          // keys whose manifest is stored
	replaced  map[string]string // token of the chain that it replaced, by key
	entries   []indexEntry
	chains    []shown
}

func (sw *sweeper) read(ctx context.Context, intent *pb.RetrievedPoint) (leftover, error) {
	v := intent.GetPayload()
	left := leftover{token: v[fieldToken].GetStringValue(), keys: textsOf(v[fieldChains]), replaced: map[string]string{}}
	tokens := textsOf(v[fieldReplaced])
	points, err := sw.server.get(ctx, sw.server.names.protocols(), left.keys,
		fieldKind, fieldSpace, fieldRevision, fieldToken, fieldDocument, fieldFormer)
	if err != nil {
		return left, err
	}
	for _, p := range points {
		m, err := sw.server.manifestOf(p)
		if err != nil {
			return left, err
		}
		// A chain that the save has read as stored and that is not stored any more
		// was replaced by this save or by a later one.
		if i := slices.Index(left.keys, m.key); i >= 0 && i < len(tokens) && tokens[i] != "" && tokens[i] != m.token {
			left.replaced[m.key] = tokens[i]
		}
		if m.kind == kindPlaceholder {
			continue
		}
		// A later save knows only what it has replaced itself.
		sh := shown{key: m.key, revision: m.revision, gone: m.former}
		if m.token == left.token {
			left.committed = append(left.committed, m.key)
		}
		if m.token == left.token && m.live() {
			if sh.chain, err = sw.server.chain(m, m.document); err != nil {
				return left, err
			}
			left.entries = append(left.entries, indexEntry{key: m.key, token: left.token, chain: sh.chain, words: analyse(sh.chain)})
		}
		left.chains = append(left.chains, sh)
	}
	return left, nil
}
