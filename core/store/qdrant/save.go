package qdrant

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	pb "github.com/qdrant/go-client/qdrant"
	"golang.org/x/sync/errgroup"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

const (
	// lockTime is how long a save of several chains reserves their places. It
	// gives up well before.
	lockTime = 10 * time.Second
	// clockMargin is how far the clocks of servers that share a Qdrant may differ.
	clockMargin = time.Minute
	// saveBytes bounds the chains of one save together.
	saveBytes = 128 << 20
	// retryPause is how long a save waits that met another one's reservation.
	retryPause = 20 * time.Millisecond
	// stepsAsked is how many steps one request looks up.
	stepsAsked = 2000
)

// save is one call that changes chains. What it writes before the commit is
// found by its token and means nothing until a manifest has that token.
type save struct {
	store   *Store
	token   string
	changes []change
	index   *indexState // that the entries went to
}

// change is what a save does to one chain.
type change struct {
	key               string
	chain             protocol.Chain // without a revision; its id and space even when it is deleted
	deletes           bool
	replaces          int64
	document, outline string
	words             analysed

	base manifest // what is stored now; zero: nothing
	next manifest
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

// newChanges encodes and analyses the chains, on all processors.
func newChanges(changes []library.Change) ([]change, error) {
	out := make([]change, len(changes))
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, c := range changes {
		g.Go(func() (err error) {
			out[i], err = newChange(c)
			return err
		})
	}
	return out, g.Wait()
}

func newChange(c library.Change) (change, error) {
	ch := change{chain: c.Chain, replaces: c.Replaces}
	ch.chain.Revision = 0
	if ch.chain.ID == "" || ch.chain.Space == "" || strings.Contains(ch.chain.ID+ch.chain.Space, "\n") {
		return ch, fault.New(fault.InvalidArgument, "protocol %q has no id or no space", ch.chain.Title)
	}
	ch.key = manifestID(ch.chain.Space, ch.chain.ID)
	if !utf8.ValidString(ch.chain.ID + ch.chain.Space + ch.chain.Title) {
		return ch, fault.New(fault.InvalidArgument, "protocol %q is not valid UTF-8", ch.chain.Title)
	}
	var err error
	if ch.document, err = encode(ch.chain); err != nil {
		return ch, fmt.Errorf("encode chain %s: %w", ch.chain.ID, err)
	}
	if ch.outline, err = encode(withoutTexts(ch.chain)); err != nil {
		return ch, fmt.Errorf("encode outline of chain %s: %w", ch.chain.ID, err)
	}
	ch.words = analyse(ch.chain)
	return ch, nil
}

func withoutTexts(c protocol.Chain) protocol.Chain {
	steps := make([]protocol.Step, len(c.Steps))
	for i, step := range c.Steps {
		step.Text = ""
		steps[i] = step
	}
	c.Steps = steps
	return c
}

func duplicate(c protocol.Chain) error {
	return fault.New(fault.DuplicateChain, "protocol %q exists already", c.Title).With("chain_id", c.ID)
}

// run does the save. Every attempt begins with what is stored; the next one
// follows when another writer was between.
func (sv *save) run(ctx context.Context) error {
	s := sv.store
	if err := s.prepare(ctx); err != nil {
		return nothingStored(err)
	}
	give := time.Now().Add(max(s.options.Timeout, 2*lockTime))
	for {
		done, err := sv.attempt(ctx)
		if done || err != nil {
			return err
		}
		if time.Now().After(give) {
			return fault.New(fault.Conflict, "protocol %q is being changed by another call", sv.changes[0].chain.Title).
				WithNext("read it again and repeat the change")
		}
		if !s.pause(ctx, retryPause) {
			return s.explain(ctx, context.Cause(ctx))
		}
	}
}

// attempt reports whether the save was committed; without an error it was not
// because another one came between, and nothing is left of it.
func (sv *save) attempt(ctx context.Context) (bool, error) {
	if err := sv.prepare(ctx); err != nil {
		return false, nothingStored(err)
	}
	now := sv.store.options.Clock.Wall()
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

// nothingStored says so of a server that was lost before the commit.
func nothingStored(err error) error {
	var lost *fault.Error
	if !errors.As(err, &lost) || lost.Code != fault.StoreUnavailable {
		return err
	}
	said := *lost
	said.Message = "nothing was stored: " + lost.Message
	return &said
}

// prepare reads what is stored and checks that the save may be done.
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
	_ = g.Wait() // each keeps its own
	if loaded != nil {
		return loaded
	}
	return checked
}

// load reads what is stored, and checks that it is what the changes replace.
func (sv *save) load(ctx context.Context) error {
	s := sv.store
	keys := make([]string, len(sv.changes))
	for i, ch := range sv.changes {
		keys[i] = ch.key
	}
	points, err := s.get(ctx, s.names().protocols(), keys, stateFields...)
	if err != nil {
		return err
	}
	found := make(map[string]manifest, len(points))
	for _, p := range points {
		m, err := s.manifestOf(p)
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

// check compares what is stored with what is to be replaced.
func (ch *change) check() error {
	have := ch.base.stored()
	switch {
	case ch.deletes && have == 0:
		return notFound("protocol", ch.chain.ID)
	case have == ch.replaces:
		return nil
	case ch.replaces == 0 && !ch.deletes:
		return duplicate(ch.chain)
	}
	was := fmt.Sprintf("revision %d is stored", have)
	if have == 0 {
		was = "it is not stored any more"
	}
	title := ch.chain.Title
	if ch.deletes {
		title = ch.base.title
	}
	return fault.New(fault.Conflict, "protocol %q was changed meanwhile: %s, revision %d was to be replaced", title, was, ch.replaces).
		WithNext("read it again and repeat the change")
}

// fresh are the steps, by space, that the chains they are for did not have.
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

// checkSteps refuses a step that belongs to a chain that the save does not change.
func (sv *save) checkSteps(ctx context.Context, bySpace map[string][]string) error {
	s := sv.store
	own := make([]string, len(sv.changes))
	for i := range sv.changes {
		own[i] = sv.changes[i].key // and nothing else: load may be writing the rest
	}
	for _, space := range slices.Sorted(maps.Keys(bySpace)) {
		for part := range slices.Chunk(bySpace[space], stepsAsked) {
			f := all(is(fieldKind, kindManifest), is(fieldSpace, space), in(fieldSteps, part))
			f.MustNot = []*pb.Condition{pb.NewHasID(ids(own)...)}
			taken, _, err := s.find(ctx, s.names().protocols(), f, 1, nil, fieldTitle)
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

// build makes the manifests that will be written.
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

func (ch *change) replacement() manifest {
	c := ch.chain
	m := manifest{
		kind: kindManifest, space: c.Space, chainID: c.ID, title: c.Title, document: ch.document, outline: ch.outline,
		steps: make([]string, len(c.Steps)),
	}
	for i, step := range c.Steps {
		m.steps[i] = step.UUID
	}
	m.former = formerSteps(ch.base, m.steps)
	return m
}

func (ch *change) deletion() manifest {
	b := ch.base
	return manifest{kind: kindDeleted, space: b.space, chainID: b.chainID, title: b.title, outline: b.outline, former: formerSteps(b, nil)}
}

// formerSteps are the steps that the chain once held and does not any more.
func formerSteps(base manifest, steps []string) []string {
	now := make(map[string]bool, len(steps))
	for _, uuid := range steps {
		now[uuid] = true
	}
	var former []string
	for _, uuid := range slices.Concat(base.steps, base.former) {
		if !now[uuid] {
			now[uuid] = true
			former = append(former, uuid)
		}
	}
	return former[:min(len(former), formerKept)]
}

// writeAhead writes all that the commit will make visible: the search index of
// the new chains, the old ones as versions, and the intent by which both are
// swept if this process ends before it can do that.
func (sv *save) writeAhead(ctx context.Context, now time.Time) error {
	s := sv.store
	ahead := []*pb.PointStruct{sv.intent(now)}
	for _, ch := range sv.changes {
		if ch.base.live() {
			ahead = append(ahead, ch.base.versionPoint())
		}
	}
	// The intent first: nothing may be left that it does not name. It need not
	// be seen yet, only be in the server's log.
	err := s.updateSoon(ctx, s.names().protocols(), upsert(ahead...))
	if err == nil {
		sv.index, err = s.writeIndex(ctx, sv.entries(), now)
	}
	return err
}

// entries are what the search index has to hold.
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

// versionPoint is the chain as it was. Whoever replaces it writes the same.
func (m manifest) versionPoint() *pb.PointStruct {
	return &pb.PointStruct{Id: pb.NewID(versionID(m.token, m.key)), Vectors: noVectors(), Payload: payload{
		fieldKind: text(kindVersion), fieldSpace: text(m.space), fieldChainID: text(m.chainID), fieldChainKey: text(m.key),
		fieldRevision: number(m.revision), fieldTitle: text(m.title), fieldDocument: text(m.document),
	}}
}

// commit writes the manifests, and reports whether they were this save's to write.
func (sv *save) commit(ctx context.Context, now time.Time) (bool, error) {
	if len(sv.changes) == 1 {
		return sv.put(ctx, now, unlocked(sv.changes[0].baseOrNone(), now))
	}
	asked := time.Now()
	if reserved, err := sv.reserve(ctx); err != nil || !reserved {
		return false, nothingStored(err)
	}
	if time.Since(asked) > lockTime/2 {
		return false, nil // too late to be sure of the reservation
	}
	mine := make([]*pb.Condition, len(sv.changes))
	for i, ch := range sv.changes {
		mine[i] = nested(lockedBy(ch.key, sv.token))
	}
	return sv.put(ctx, now, anyOf(mine...))
}

// baseOrNone is what was read; for a chain that was not there it matches no
// point that came meanwhile.
func (ch *change) baseOrNone() manifest {
	if ch.base.key == "" {
		return manifest{key: ch.key, token: "none"}
	}
	return ch.base
}

// put writes all manifests in one record of the server's log. Repeating it
// changes nothing once it was done: the condition does not hold any more.
func (sv *save) put(ctx context.Context, now time.Time, condition *pb.Filter) (bool, error) {
	s := sv.store
	points := make([]*pb.PointStruct, len(sv.changes))
	for i, ch := range sv.changes {
		var err error
		if points[i], err = ch.next.point(now); err != nil {
			return false, err
		}
	}
	failed := s.update(ctx, s.names().protocols(), upsertIf(condition, points...))
	if failed != nil && ctx.Err() == nil && fault.CodeOf(failed) != fault.StoreUnavailable {
		return false, failed
	}
	// The answer may be lost although the server has done it.
	look := ctx
	if failed != nil {
		var cancel context.CancelFunc
		look, cancel = context.WithTimeout(context.WithoutCancel(ctx), s.options.Timeout)
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

// written counts the manifests that this save has written.
func (sv *save) written(ctx context.Context) (int, error) {
	s := sv.store
	keys := make([]string, len(sv.changes))
	for i, ch := range sv.changes {
		keys[i] = ch.key
	}
	points, err := s.get(ctx, s.names().protocols(), keys, fieldKind, fieldToken, fieldLog)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, p := range points {
		m, err := s.manifestOf(p)
		if err != nil {
			return 0, err
		}
		if m.wrote(sv.token) {
			n++
		}
	}
	return n, nil
}

// reserve takes the places of several chains, so that the commit writes all of
// them or, if this process ends here, none.
func (sv *save) reserve(ctx context.Context) (bool, error) {
	s := sv.store
	now := s.options.Clock.Wall()
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
	if err := s.update(ctx, s.names().protocols(), ops...); err != nil {
		return false, err
	}
	points, err := s.get(ctx, s.names().protocols(), keys, fieldLock)
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

// abandon removes what a save that was not committed has left. What it cannot
// remove is swept later.
func (sv *save) abandon(ctx context.Context, cause error) error {
	s := sv.store
	if fault.CodeOf(cause) == fault.StoreUnavailable {
		return cause // whether it was committed may not be known, and nobody would answer
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Timeout)
	defer cancel()
	err := s.update(ctx, s.names().index(), remove(all(is(fieldToken, sv.token))))
	if err == nil {
		ops := []*pb.PointsUpdateOperation{
			remove(all(is(fieldKind, kindPlaceholder), is(fieldLock, sv.token))),
			setIf(all(is(fieldLock, sv.token)), payload{fieldLock: text(""), fieldLockUntil: number(0)}),
			removeIDs(sv.intentID()),
		}
		err = s.update(ctx, s.names().protocols(), ops...)
	}
	if err != nil {
		s.log.DebugContext(ctx, "a refused save is left to be swept", "token", sv.token, "error", err)
	}
	sv.token = uuid.NewString() // of the next attempt
	return cause
}

// finish removes what the committed save has replaced. A failure is left to be swept.
func (sv *save) finish(ctx context.Context) {
	s := sv.store
	s.counts.forget()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.options.Timeout)
	defer cancel()
	err := s.followIndex(ctx, sv.index, sv.entries())
	if old := sv.replaced(); err == nil && len(old) > 0 {
		err = s.update(ctx, s.names().index(), removeIDs(old...)) // a vector of theirs must not be known any more
	}
	var ops []sizedOp
	if err == nil {
		ops, err = s.shownOps(ctx, sv.shown())
	}
	if err == nil {
		// The intent last: until then it names what is still to be done.
		ops = append(ops, sizedOp{removeIDs(slices.Concat(sv.tooOld(), []string{sv.intentID()})...), 0})
		err = s.updateSoonSized(ctx, s.names().protocols(), ops)
	}
	if err != nil {
		s.log.WarnContext(ctx, "what a save has replaced is left to be swept", "qdrant", s.at.String(), "error", err)
	}
}

// shown are the chains as other programs are to see them.
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

// replaced are the points of the index that are of the chains as they were.
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

// tooOld are the version points that no log names any more.
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
