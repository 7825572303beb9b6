package qdrant

import (
	"context"
	"slices"
	"time"

	pb "github.com/qdrant/go-client/qdrant"
)

// sweepEvery is how often an open store looks for what ended processes left.
const sweepEvery = time.Hour

// startSweeping sweeps in the background, now and then until Close.
func (s *Store) startSweeping() {
	if s.schema.sweeping.Swap(true) {
		return
	}
	s.work.Go(func() {
		tick := time.NewTicker(sweepEvery)
		defer tick.Stop()
		for {
			err := s.showAll(s.closing)
			if err == nil {
				err = s.Sweep(s.closing)
			}
			if err != nil && s.closing.Err() == nil {
				s.log.Warn("what ended processes left half-written could not be swept", "qdrant", s.at.String(), "error", err)
			}
			select {
			case <-tick.C:
			case <-s.closing.Done():
				return
			}
		}
	})
}

// Sweep completes or undoes what saves have left whose process ended, if it is
// older than Options.SweepAge. None of it can be seen before or after.
func (s *Store) Sweep(ctx context.Context) error {
	if !s.schema.ready.Load() && s.schema.index.Load() == nil {
		if err := s.prepare(ctx); err != nil {
			return err
		}
	}
	// Not by a jump of the clock: a save that is under way must not look old.
	now := s.options.Clock.Wall()
	if settled := s.options.Clock.Settled(); settled.Before(now) {
		now = settled
	}
	until := pb.NewRange(fieldWritten, &pb.Range{Lte: pb.PtrOf(float64(now.Add(-s.options.SweepAge).UnixMilli()))})
	fields := []string{fieldToken, fieldChains, fieldReplaced}
	err := s.each(ctx, s.names().protocols(), all(is(fieldKind, kindIntent), until), 16, fields, func(points []*pb.RetrievedPoint) error {
		for _, p := range points {
			if err := s.sweepIntent(ctx, p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := s.mergeWords(ctx); err != nil {
		return err
	}
	return s.update(ctx, s.names().protocols(), remove(&pb.Filter{
		Must:    []*pb.Condition{is(fieldKind, kindPlaceholder), until},
		MustNot: []*pb.Condition{reserved(s.options.Clock.Wall())},
	}))
}

// sweepIntent finishes one save: where its manifest is stored, what that has
// replaced goes; where it is not, what was to become of it goes.
func (s *Store) sweepIntent(ctx context.Context, p *pb.RetrievedPoint) error {
	v := p.GetPayload()
	token, keys, tokens := v[fieldToken].GetStringValue(), textsOf(v[fieldChains]), textsOf(v[fieldReplaced])
	points, err := s.get(ctx, s.names().protocols(), keys, fieldKind, fieldSpace, fieldRevision, fieldToken, fieldDocument, fieldFormer)
	if err != nil {
		return err
	}
	committed, replaced := map[string]bool{}, map[string]string{}
	var entries []indexEntry
	var chains []shown
	for _, p := range points {
		m, err := s.manifestOf(p)
		if err != nil {
			return err
		}
		// What it has read as stored and is not stored now was replaced, by this
		// save or by one after it.
		if i := slices.Index(keys, m.key); i >= 0 && i < len(tokens) && tokens[i] != "" && tokens[i] != m.token {
			replaced[m.key] = tokens[i]
		}
		if m.kind == kindPlaceholder {
			continue
		}
		// Whoever came after it knows only what it has replaced itself.
		sh := shown{key: m.key, revision: m.revision, gone: m.former}
		if m.token != token {
			chains = append(chains, sh)
			continue
		}
		committed[m.key] = true
		if m.live() {
			c, err := s.chain(m, m.document)
			if err != nil {
				return err
			}
			entries = append(entries, indexEntry{key: m.key, token: token, chain: c, words: analyse(c)})
			sh.chain = c
		}
		chains = append(chains, sh)
	}
	ops, err := s.shownOps(ctx, chains)
	if err != nil {
		return err
	}
	if err := s.updateSoonSized(ctx, s.names().protocols(), ops); err != nil {
		return err
	}
	if err := s.removeReplaced(ctx, replaced); err != nil {
		return err
	}
	// It may have ended before it noticed a new index.
	if _, err := s.writeIndex(ctx, entries, s.options.Clock.Wall()); err != nil {
		return err
	}
	stray := all(is(fieldToken, token))
	for key := range committed {
		stray.MustNot = append(stray.MustNot, is(fieldChainKey, key))
	}
	if err := s.update(ctx, s.names().index(), remove(stray)); err != nil {
		return err
	}
	s.log.InfoContext(ctx, "a save whose process ended was swept", "qdrant", s.at.String(), "chains", len(keys), "committed", len(committed))
	return s.update(ctx, s.names().protocols(), pb.NewPointsUpdateDeletePoints(&pb.PointsUpdateOperation_DeletePoints{Points: pb.NewPointsSelectorIDs([]*pb.PointId{p.GetId()})}))
}
