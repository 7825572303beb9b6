package qdrant

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	pb "github.com/qdrant/go-client/qdrant"
	"golang.org/x/sync/errgroup"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

const (
	// lockTime is how long a save of several chains reserves their points. The save
	// gives up well before.
	lockTime = 10 * time.Second
	// clockMargin is how far the clocks of servers that share a Qdrant may differ.
	clockMargin = time.Minute
	// saveBytes bounds the chains of one save together.
	saveBytes = 128 << 20
	// retryPause is how long a save waits for the reservation of another one.
	retryPause = 20 * time.Millisecond
	// stepsAsked is how many steps one request looks up.
	stepsAsked = 2000
)

// save is one call that changes chains. Its writes before the commit carry its
// token, and have no effect until a manifest has that token.
type save struct {
	store   *Store
	token   string
	changes []change
	index   *indexState // that has the entries
}

// SaveChains implements library.ProtocolWriter.
func (s *Store) SaveChains(ctx context.Context, changes []library.Change) ([]int64, error) {
	if len(changes) == 0 {
		return nil, ctx.Err()
	}
	sv := s.newSave()
	prepared, err := newChanges(changes)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]bool, len(changes))
	steps := make(map[[2]string]bool)
	size := 0
	for _, ch := range prepared {
		if seen[ch.key] {
			return nil, duplicate(ch.chain)
		}
		seen[ch.key] = true
		for i, step := range ch.chain.Steps {
			at := [2]string{ch.chain.Space, step.UUID}
			if steps[at] || step.UUID == "" {
				return nil, fault.New(fault.InvalidArgument, "step %d of protocol %q: uuid %q is empty or used twice", i+1, ch.chain.Title, step.UUID)
			}
			steps[at] = true
		}
		if size += len(ch.document); size > saveBytes {
			return nil, fault.New(fault.InvalidArgument, "the protocols of one call are larger than %d MiB", saveBytes>>20)
		}
		sv.changes = append(sv.changes, ch)
	}
	if err := sv.run(ctx); err != nil {
		return nil, err
	}
	revisions := make([]int64, len(sv.changes))
	for i, ch := range sv.changes {
		revisions[i] = ch.next.revision
	}
	return revisions, nil
}

// DeleteChain implements library.ProtocolWriter.
func (s *Store) DeleteChain(ctx context.Context, space, id string, replaces int64) error {
	sv := s.newSave()
	sv.changes = []change{{
		key: manifestID(space, id), chain: protocol.Chain{ID: id, Space: space}, deletes: true, replaces: replaces,
	}}
	return sv.run(ctx)
}

func (s *Store) newSave() *save { return &save{store: s, token: uuid.NewString()} }

// run does the save. Every attempt begins by reading the stored manifests, and is
// repeated if another writer interfered.
func (sv *save) run(ctx context.Context) error {
	s := sv.store
	if err := s.schema.prepare(ctx); err != nil {
		return nothingStored(err)
	}
	give := time.Now().Add(max(s.server.options.Timeout, 2*lockTime))
	for {
		done, err := sv.attempt(ctx)
		if done || err != nil {
			return err
		}
		if time.Now().After(give) {
			return fault.New(fault.Conflict, "protocol %q is being changed by another call", sv.changes[0].chain.Title).
				WithRemedy("read it again and repeat the change")
		}
		if !s.server.pause(ctx, retryPause) {
			return s.server.explain(ctx, context.Cause(ctx))
		}
	}
}

// attempt reports whether the save was committed. Without an error it was not
// because another save interfered, and nothing of it is left.
func (sv *save) attempt(ctx context.Context) (bool, error) {
	if err := sv.prepare(ctx); err != nil {
		return false, nothingStored(err)
	}
	now := sv.store.server.options.Clock.Wall()
	for _, ch := range sv.changes {
		if ch.base.locked(now) {
			return false, nil
		}
	}
	sv.build(now)
	if err := sv.writeAhead(ctx, now); err != nil {
		return false, sv.abandon(ctx, nothingStored(err))
	}
	done, err := sv.commit(ctx, now)
	if err != nil || !done {
		return false, sv.abandon(ctx, err)
	}
	sv.finish(ctx)
	return true, nil
}

// nothingStored adds to the error of a server that was lost before the commit that
// nothing was stored.
func nothingStored(err error) error {
	var lost *fault.Error
	if !errors.As(err, &lost) || lost.Code != fault.StoreUnavailable {
		return err
	}
	said := *lost
	said.Message = "nothing was stored: " + lost.Message
	return &said
}

// prepare reads the stored manifests and checks that the save is allowed.
func (sv *save) prepare(ctx context.Context) error {
	if slices.ContainsFunc(sv.changes, func(ch change) bool { return ch.replaces > 0 || ch.deletes }) {
		if err := sv.load(ctx); err != nil {
			return err
		}
		return sv.checkSteps(ctx, sv.fresh())
	}
	// Nothing is replaced, so all steps are new, whatever is stored.
	fresh := sv.fresh()
	var g errgroup.Group
	var loaded, checked error
	g.Go(func() error { loaded = sv.load(ctx); return nil })
	g.Go(func() error { checked = sv.checkSteps(ctx, fresh); return nil })
	_ = g.Wait() // both errors are kept separately
	if loaded != nil {
		return loaded
	}
	return checked
}

// load reads the stored manifests and compares their revisions with the changes.
func (sv *save) load(ctx context.Context) error {
	s := sv.store
	keys := make([]string, len(sv.changes))
	for i, ch := range sv.changes {
		keys[i] = ch.key
	}
	points, err := s.server.get(ctx, s.server.names.protocols(), keys, stateFields...)
	if err != nil {
		return err
	}
	found := make(map[string]manifest, len(points))
	for _, p := range points {
		m, err := s.server.manifestOf(p)
		if err != nil {
			return err
		}
		found[m.key] = m
	}
	for i := range sv.changes {
		ch := &sv.changes[i]
		ch.base = found[ch.key]
		if err := ch.check(); err != nil {
			return err
		}
	}
	return nil
}

// fresh returns the steps, by space, that are new to their chains.
func (sv *save) fresh() map[string][]string {
	bySpace := map[string][]string{}
	for _, ch := range sv.changes {
		held := make(map[string]bool, len(ch.base.steps))
		for _, uuid := range ch.base.steps {
			held[uuid] = ch.base.live()
		}
		for _, step := range ch.chain.Steps {
			if !held[step.UUID] {
				bySpace[ch.chain.Space] = append(bySpace[ch.chain.Space], step.UUID)
			}
		}
	}
	return bySpace
}

// checkSteps rejects a step that belongs to a chain that the save does not change.
func (sv *save) checkSteps(ctx context.Context, bySpace map[string][]string) error {
	s := sv.store
	own := make([]string, len(sv.changes))
	for i := range sv.changes {
		own[i] = sv.changes[i].key // reads nothing else: load may be writing the other fields
	}
	for _, space := range slices.Sorted(maps.Keys(bySpace)) {
		for part := range slices.Chunk(bySpace[space], stepsAsked) {
			f := all(is(fieldKind, kindManifest), is(fieldSpace, space), in(fieldSteps, part))
			f.MustNot = []*pb.Condition{pb.NewHasID(ids(own)...)}
			taken, _, err := s.server.find(ctx, s.server.names.protocols(), f, 1, nil, fieldTitle)
			if err != nil {
				return err
			}
			if len(taken) > 0 {
				return fault.New(fault.InvalidArgument, "a step belongs to protocol %q already", taken[0].GetPayload()[fieldTitle].GetStringValue())
			}
		}
	}
	return nil
}

// build makes the new manifests.
func (sv *save) build(now time.Time) {
	for i := range sv.changes {
		ch := &sv.changes[i]
		if ch.deletes {
			ch.next = ch.deletion()
		} else {
			ch.next = ch.replacement()
		}
		number := ch.base.revision + 1
		ch.next.revision, ch.next.token, ch.next.key = number, sv.token, ch.key
		ch.next.log = slices.Concat([]revision{{
			Number: number, Token: sv.token, Title: ch.next.title, Steps: len(ch.next.steps), ModelID: ch.chain.ModelID,
			Saved: now.UnixNano(), Deleted: ch.deletes,
		}}, ch.base.log)
		if len(ch.next.log) > versionsKept {
			ch.next.log = ch.next.log[:versionsKept]
		}
	}
}

// abandon removes the remains of a save that was not committed. If that fails,
// they are swept later.
func (sv *save) abandon(ctx context.Context, cause error) error {
	s := sv.store
	if fault.CodeOf(cause) == fault.StoreUnavailable {
		return cause // it may have been committed, and the server would not answer
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.server.options.Timeout)
	defer cancel()
	err := s.server.update(ctx, s.server.names.index(), remove(all(is(fieldToken, sv.token))))
	if err == nil {
		ops := []*pb.PointsUpdateOperation{
			remove(all(is(fieldKind, kindPlaceholder), is(fieldLock, sv.token))),
			setIf(all(is(fieldLock, sv.token)), payload{fieldLock: text(""), fieldLockUntil: number(0)}),
			removeIDs(sv.intentID()),
		}
		err = s.server.update(ctx, s.server.names.protocols(), ops...)
	}
	if err != nil {
		s.server.log.DebugContext(ctx, "the remains of a refused save are left to be swept", "token", sv.token, "error", err)
	}
	sv.token = uuid.NewString() // of the next attempt
	return cause
}

// finish removes the replaced points of a committed save. After a failure they are
// swept later.
func (sv *save) finish(ctx context.Context) {
	s := sv.store
	s.counts.forget()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.server.options.Timeout)
	defer cancel()
	err := s.index.follow(ctx, sv.index, sv.entries())
	if old := sv.replaced(); err == nil && len(old) > 0 {
		err = s.server.update(ctx, s.server.names.index(), removeIDs(old...)) // their vectors must not be found any more
	}
	var ops []sizedOp
	if err == nil {
		ops, err = s.steps.ops(ctx, sv.shown())
	}
	if err == nil {
		// The intent last: until then it names the remaining work.
		ops = append(ops, sizedOp{removeIDs(slices.Concat(sv.tooOld(), []string{sv.intentID()})...), 0})
		err = s.server.updateSoonSized(ctx, s.server.names.protocols(), ops)
	}
	if err != nil {
		s.server.log.WarnContext(ctx, "the points that a save has replaced are left to be swept", "qdrant", s.server.at.String(), "error", err)
	}
}

// shown returns the chains with their points of steps for other programs.
func (sv *save) shown() []shown {
	out := make([]shown, len(sv.changes))
	for i, ch := range sv.changes {
		out[i] = shown{key: ch.key, revision: ch.next.revision, chain: ch.chain, fresh: ch.base.key == ""}
		held := make(map[string]bool, len(ch.next.steps))
		for _, step := range ch.next.steps {
			held[step] = true
		}
		out[i].gone = slices.DeleteFunc(slices.Clone(ch.base.steps), func(step string) bool { return held[step] })
	}
	return out
}

// replaced returns the index points of the replaced chains.
func (sv *save) replaced() []string {
	var out []string
	for _, ch := range sv.changes {
		if !ch.base.live() {
			continue
		}
		out = append(out, chainPointID(ch.base.token, ch.key))
		for i := range ch.base.steps {
			out = append(out, stepPointID(ch.base.token, ch.key, i))
		}
	}
	return out
}

// tooOld returns the version points that no log names any more.
func (sv *save) tooOld() []string {
	var out []string
	for _, ch := range sv.changes {
		if len(ch.base.log) < versionsKept {
			continue
		}
		for _, r := range ch.base.log[versionsKept-1:] {
			out = append(out, versionID(r.Token, ch.key))
		}
	}
	return out
}
