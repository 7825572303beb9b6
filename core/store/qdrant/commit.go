package qdrant

import (
	"context"
	"time"

	pb "github.com/qdrant/go-client/qdrant"

	"github.com/kairos-mcp/kairos/core/fault"
)

// writeAhead writes everything that the commit makes visible: the search index of
// the new chains, the old chains as versions, and the intent that lets the sweeper
// clean up if this process ends early.
func (sv *save) writeAhead(ctx context.Context, now time.Time) error {
	s := sv.store
	ahead := []*pb.PointStruct{sv.intent(now)}
	for _, ch := range sv.changes {
		if ch.base.live() {
			ahead = append(ahead, ch.base.versionPoint())
		}
	}
	// The intent first: it must name everything that may be left behind. It only
	// has to be in the server's log, not to be visible yet.
	err := s.server.updateSoon(ctx, s.server.names.protocols(), upsert(ahead...))
	if err == nil {
		sv.index, err = s.index.write(ctx, sv.entries(), now)
	}
	return err
}

// entries are the new entries of the search index.
func (sv *save) entries() []indexEntry {
	var out []indexEntry
	for _, ch := range sv.changes {
		if !ch.deletes {
			out = append(out, indexEntry{key: ch.key, token: sv.token, chain: ch.chain, words: ch.words})
		}
	}
	return out
}

func (sv *save) intentID() string { return pointID(kindIntent, sv.token) }

func (sv *save) intent(now time.Time) *pb.PointStruct {
	var keys, replaced []string
	for _, ch := range sv.changes {
		keys, replaced = append(keys, ch.key), append(replaced, ch.base.token)
	}
	return &pb.PointStruct{Id: pb.NewID(sv.intentID()), Vectors: noVectors(), Payload: payload{
		fieldKind: text(kindIntent), fieldToken: text(sv.token), fieldChains: texts(keys), fieldReplaced: texts(replaced),
		fieldWritten: number(now.UnixMilli()),
	}}
}

// versionPoint is the version point of the manifest. It is the same for every save
// that replaces the manifest.
func (m manifest) versionPoint() *pb.PointStruct {
	return &pb.PointStruct{Id: pb.NewID(versionID(m.token, m.key)), Vectors: noVectors(), Payload: payload{
		fieldKind: text(kindVersion), fieldSpace: text(m.space), fieldChainID: text(m.chainID), fieldChainKey: text(m.key),
		fieldRevision: number(m.revision), fieldTitle: text(m.title), fieldDocument: text(m.document),
	}}
}

// commit writes the manifests, and reports false if another save was first.
func (sv *save) commit(ctx context.Context, now time.Time) (bool, error) {
	if len(sv.changes) == 1 {
		return sv.put(ctx, now, unlocked(sv.changes[0].baseOrNone(), now))
	}
	began := time.Now()
	if reserved, err := sv.reserve(ctx); err != nil || !reserved {
		return false, nothingStored(err)
	}
	if time.Since(began) > lockTime/2 {
		return false, nil // the reservation may have expired
	}
	mine := make([]*pb.Condition, len(sv.changes))
	for i, ch := range sv.changes {
		mine[i] = nested(lockedBy(ch.key, sv.token))
	}
	return sv.put(ctx, now, anyOf(mine...))
}

// put writes all manifests in one record of the server's log. Repeating it has no
// effect: the condition no longer holds.
func (sv *save) put(ctx context.Context, now time.Time, condition *pb.Filter) (bool, error) {
	s := sv.store
	points := make([]*pb.PointStruct, len(sv.changes))
	for i, ch := range sv.changes {
		var err error
		if points[i], err = ch.next.point(now); err != nil {
			return false, err
		}
	}
	failed := s.server.update(ctx, s.server.names.protocols(), upsertIf(condition, points...))
	if failed != nil && ctx.Err() == nil && fault.CodeOf(failed) != fault.StoreUnavailable {
		return false, failed
	}
	// The answer may be lost although the server has written them.
	look := ctx
	if failed != nil {
		var cancel context.CancelFunc
		look, cancel = context.WithTimeout(context.WithoutCancel(ctx), s.server.options.Timeout)
		defer cancel()
	}
	written, err := sv.written(look)
	switch {
	case err != nil && failed != nil:
		return false, unsure(failed)
	case err != nil:
		return false, unsure(err)
	case written == 0 && failed != nil:
		return false, failed
	case written > 0 && written < len(sv.changes):
		return false, fault.New(fault.Internal, "%d of %d protocols were stored, because the save was held up for longer than its reservation", written, len(sv.changes))
	}
	return written > 0, nil
}

func unsure(err error) error {
	return fault.Wrap(err, fault.StoreUnavailable, "the connection to Qdrant was lost while protocols were being stored: they are stored as a whole or not at all").
		WithNext("look whether they are there, and repeat the call if not")
}

// written returns how many manifests this save has written.
func (sv *save) written(ctx context.Context) (int, error) {
	s := sv.store
	keys := make([]string, len(sv.changes))
	for i, ch := range sv.changes {
		keys[i] = ch.key
	}
	points, err := s.server.get(ctx, s.server.names.protocols(), keys, fieldKind, fieldToken, fieldLog)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, p := range points {
		m, err := s.server.manifestOf(p)
		if err != nil {
			return 0, err
		}
		if m.wrote(sv.token) {
			n++
		}
	}
	return n, nil
}

// reserve reserves the points of several chains, so that the commit writes all of
// them or, if this process ends early, none.
func (sv *save) reserve(ctx context.Context) (bool, error) {
	s := sv.store
	now := s.server.options.Clock.Wall()
	until := number(now.Add(lockTime).UnixMilli())
	var fresh []*pb.PointStruct
	var known []*pb.Condition
	keys := make([]string, len(sv.changes))
	for i, ch := range sv.changes {
		keys[i] = ch.key
		if ch.base.key != "" {
			known = append(known, nested(unlocked(ch.base, now)))
			continue
		}
		fresh = append(fresh, &pb.PointStruct{Id: pb.NewID(ch.key), Vectors: noVectors(), Payload: payload{
			fieldKind: text(kindPlaceholder), fieldToken: text(sv.token), fieldLock: text(sv.token), fieldLockUntil: until,
			fieldWritten: number(now.UnixMilli()),
		}})
	}
	var ops []*pb.PointsUpdateOperation
	if len(fresh) > 0 {
		ops = append(ops, upsertIf(noPoint(), fresh...))
	}
	if len(known) > 0 {
		ops = append(ops, setIf(anyOf(known...), payload{fieldLock: text(sv.token), fieldLockUntil: until}))
	}
	if err := s.server.update(ctx, s.server.names.protocols(), ops...); err != nil {
		return false, err
	}
	points, err := s.server.get(ctx, s.server.names.protocols(), keys, fieldLock)
	if err != nil {
		return false, err
	}
	mine := 0
	for _, p := range points {
		if p.GetPayload()[fieldLock].GetStringValue() == sv.token {
			mine++
		}
	}
	return mine == len(sv.changes), nil
}
