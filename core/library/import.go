package library

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// ImportItem is one document to import.
type ImportItem struct {
	Document string
	File     string // titles a document that has neither a title nor a record
	// Record of the document, which must then hold one protocol; optional.
	Record *Record
	Older  []Written // versions to store before it, oldest first
}

func (i ImportItem) text() Text {
	if i.Record != nil {
		return Text{Document: i.Document}
	}
	return Text{i.Document, i.File}
}

// Existing selects what happens to a stored protocol that differs.
type Existing string

// The ways to treat an existing protocol. ReplaceExisting also stores protocols whose
// titles look the same as others, as kairos_mint with force_update does.
const (
	SkipExisting    Existing = "skip"
	ReplaceExisting Existing = "replace"
	FailOnExisting  Existing = "fail"
)

// ImportInput is a batch; a hundred items is a good size.
type ImportInput struct {
	Items []ImportItem
	// Space to store in, as in api.MintRequest; empty: the space of the record, or
	// the caller's own.
	Space      string
	ModelID    string // of documents that have no record
	OnExisting Existing
}

// ImportStatus is the outcome for an item.
type ImportStatus string

// The outcomes. A document with several protocols has the worst of theirs.
const (
	Unchanged ImportStatus = "unchanged" // the same is stored
	Stored    ImportStatus = "stored"
	Replaced  ImportStatus = "replaced"
	Skipped   ImportStatus = "skipped" // another version is stored
	Failed    ImportStatus = "failed"
)

// ImportResult is the outcome for one item.
type ImportResult struct {
	Status ImportStatus
	Titles []string
	Err    error // of Failed: why
}

// Import stores documents, each completely or not at all, in as few writes as
// possible. Items that are stored already are left alone, so an interrupted import
// can simply be repeated. The results are in the order of the items; an error
// means that the rest of the import would fail too.
func (l *Library) Import(ctx context.Context, c access.Caller, in ImportInput) (results []ImportResult, err error) {
	doing, err := l.opt.Audit.Begin(ctx, c, audit.Act{Action: audit.ProtocolImport, Details: map[string]string{"documents": strconv.Itoa(len(in.Items))}})
	if err != nil {
		return nil, err
	}
	defer doing.End(&err)
	if err := l.catalog.ready(ctx); err != nil {
		return nil, err
	}
	j, release := hold(l.setups)
	defer release()
	im := importer{library: l, judge: j, caller: c, input: in}
	all := make([]arrival, len(in.Items))
	var g errgroup.Group
	// Validation waits for drivers and reading waits for the store, so more than
	// one per processor.
	g.SetLimit(4 * runtime.GOMAXPROCS(0))
	for i, item := range in.Items {
		g.Go(func() error {
			leave, err := l.large.enter(ctx, len(item.Document))
			if err != nil {
				all[i].fail(err)
				return nil
			}
			defer leave()
			all[i] = im.arrive(ctx, item)
			return nil
		})
	}
	_ = g.Wait() // every arrival keeps its own error
	im.refuseTwins(all)
	if err := im.settle(ctx, all); err != nil {
		return nil, err
	}
	counts := map[ImportStatus]int{}
	for _, a := range all {
		counts[a.status]++
		if len(a.chains) > 0 {
			doing.On(a.chains[0].Space, "")
		}
	}
	for status, n := range counts {
		doing.Note(string(status), strconv.Itoa(n))
	}
	results = make([]ImportResult, len(all))
	for i, a := range all {
		results[i] = a.result()
		if code := fault.CodeOf(a.err); code == fault.StoreUnavailable || ctx.Err() != nil {
			return results[:i], errors.Join(a.err, ctx.Err())
		}
	}
	return results, nil
}

// arrival is an item on its way into the store.
type arrival struct {
	status  ImportStatus
	chains  []protocol.Chain
	changes []Change
	older   []protocol.Chain // versions to be stored before the one change
	quality map[string]api.Quality
	err     error
}

func (a *arrival) fail(err error) { a.status, a.err, a.changes, a.older = Failed, err, nil, nil }

func (a arrival) result() ImportResult {
	r := ImportResult{Status: a.status, Err: a.err}
	for _, c := range a.chains {
		r.Titles = append(r.Titles, c.Title)
	}
	return r
}

// importer stores the items of one import.
type importer struct {
	library *Library
	judge   judge
	caller  access.Caller
	input   ImportInput
}

// arrive parses and validates one item and compares it with the stored protocol.
func (im importer) arrive(ctx context.Context, item ImportItem) arrival {
	a := arrival{status: Unchanged}
	space, err := importSpace(im.caller, im.input.Space, item.Record)
	if err != nil {
		a.fail(err)
		return a
	}
	if a.chains, _, err = im.judge.check(ctx, space, item.text()); err != nil {
		a.fail(err)
		return a
	}
	if r := item.Record; r != nil {
		a.quality = r.Quality
		if err := r.checkAgainst(a.chains); err != nil {
			a.fail(err)
			return a
		}
	}
	now := im.library.opt.Clock.Now()
	for i := range a.chains {
		chain := &a.chains[i]
		chain.Space, chain.ModelID, chain.CreatedAt, chain.UpdatedAt = space, im.input.ModelID, now, now
		old, err := im.library.catalog.stored(ctx, *chain)
		if err != nil {
			a.fail(err)
			return a
		}
		if old == nil && im.input.OnExisting != ReplaceExisting {
			if err := refuseLookAlike(ctx, im.library.store.Searcher, im.caller.Spaces(), *chain); err != nil {
				a.fail(err)
				return a
			}
		}
		*chain = identify(*chain, old)
		if item.Record != nil {
			item.Record.applyTo(chain)
		}
		a.decide(*chain, old, im.input.OnExisting, item)
		if a.err != nil {
			return a
		}
	}
	return a
}

// importSpace returns the space for an item. A record may name a space that does
// not exist here or belongs to others.
func importSpace(c access.Caller, space string, r *Record) (string, error) {
	if strings.TrimSpace(space) != "" || r == nil || r.Space == "" {
		return mintSpace(c, space)
	}
	if !slices.Contains(c.Writable(), r.Space) {
		return "", fault.New(fault.SpaceNotFound, "it was exported from the space %q, to which you may not write here; say with --space where it should go", plain.Clip(r.Space, 80))
	}
	return r.Space, nil
}

// decide chooses what happens to a chain; old is the stored one.
func (a *arrival) decide(chain protocol.Chain, old *protocol.Chain, existing Existing, item ImportItem) {
	var before []protocol.Chain
	replaces := int64(0)
	switch {
	case old == nil:
		before = olderChains(chain.Space, item.Older, 0)
		a.status = Stored
	case sameChain(chain, *old):
		return
	case old.Revision > 0 && old.Revision <= int64(len(item.Older)) && item.Older[old.Revision-1].Document == protocol.Render(*old):
		// An earlier import was interrupted within the history of this protocol.
		replaces = old.Revision
		before = olderChains(chain.Space, item.Older, int(old.Revision))
		a.status = Stored
	case existing == ReplaceExisting:
		replaces = old.Revision
		if a.status != Stored {
			a.status = Replaced
		}
	case existing == FailOnExisting:
		a.fail(fault.New(fault.DuplicateChain, "another version of %q is stored already", chain.Title))
		return
	default:
		if a.status == Unchanged {
			a.status = Skipped
		}
		return
	}
	a.older = append(a.older, before...)
	a.changes = append(a.changes, Change{Chain: chain, Replaces: replaces})
}

// sameChain reports whether storing c over old would change nothing visible. White space
// in challenges does not count.
func sameChain(c, old protocol.Chain) bool {
	return sameContent(c, old) && slices.Equal(stepUUIDs(c), stepUUIDs(old))
}

// olderChains parses the versions after the first n. Versions that can no longer
// be read are left out.
func olderChains(space string, older []Written, n int) []protocol.Chain {
	var out []protocol.Chain
	for _, w := range older[n:] {
		chains, _ := protocol.Parse([]byte(w.Document))
		if w.Record.checkAgainst(chains) != nil {
			continue
		}
		chain := chains[0]
		chain.Space = space
		chain = identify(chain, nil)
		w.Record.applyTo(&chain)
		out = append(out, chain)
	}
	return out
}

// refuseTwins refuses items that repeat a title or a step of an earlier item of
// the batch, or have a title that looks the same. The store detects those of other
// batches.
func (im importer) refuseTwins(all []arrival) {
	titles, looks, steps := map[string]string{}, map[string]string{}, map[string]string{}
	for i := range all {
		a := &all[i]
		for _, change := range a.changes {
			c := change.Chain
			key := c.Space + "\n" + c.ID
			if _, twice := titles[key]; twice {
				a.fail(fault.New(fault.DuplicateChain, "another document of the import has the title %q", plain.Clip(c.Title, 80)))
				break
			}
			titles[key] = c.Title
			look := c.Space + "\n" + lookOf(c.Title)
			if other, twice := looks[look]; twice && im.input.OnExisting != ReplaceExisting {
				a.fail(fault.New(fault.SimilarMemoryFound, "its title looks the same as that of %q, another document of the import; if both are meant, import it with --on-existing replace", plain.Clip(other, maxTitleShown)))
				break
			}
			looks[look] = c.Title
			if id, owner := claimedStep(c, steps); id != "" {
				a.fail(fault.New(fault.InvalidArgument, "its step %s belongs to %q, too", id, plain.Clip(owner, 80)))
				break
			}
		}
	}
}

// claimedStep records the steps of the chain and returns one that another chain
// has.
func claimedStep(c protocol.Chain, owners map[string]string) (id, owner string) {
	for _, s := range c.Steps {
		if owner, taken := owners[c.Space+"\n"+s.UUID]; taken {
			return s.UUID, owner
		}
	}
	for _, s := range c.Steps {
		owners[c.Space+"\n"+s.UUID] = c.Title
	}
	return "", ""
}

// settle stores the batch in one write if that works, and otherwise item by item,
// so that one bad item does not fail the others.
func (im importer) settle(ctx context.Context, all []arrival) error {
	for i := range all {
		for _, older := range all[i].older {
			last := &all[i].changes[0]
			revisions, err := im.library.catalog.writer.SaveChains(ctx, []Change{{Chain: older, Replaces: last.Replaces}})
			if fault.CodeOf(err) == fault.InvalidArgument {
				continue // one of its steps belongs to another protocol here; the newest version matters
			}
			if err != nil {
				all[i].fail(fmt.Errorf("store an older version of %q: %w", older.Title, err))
				break
			}
			last.Replaces = revisions[0]
		}
	}
	var batch []Change
	for _, a := range all {
		batch = append(batch, a.changes...)
	}
	if len(batch) > 0 {
		if _, err := im.library.catalog.writer.SaveChains(ctx, batch); err != nil {
			im.settleEach(ctx, all, err)
		}
	}
	for i := range all {
		if err := im.rateAgain(ctx, all[i]); err != nil {
			return fmt.Errorf("store ratings: %w", err)
		}
	}
	return nil
}

// settleEach stores the items one by one, unless the store is unavailable.
func (im importer) settleEach(ctx context.Context, all []arrival, err error) {
	for i := range all {
		if len(all[i].changes) == 0 {
			continue
		}
		if fault.CodeOf(err) != fault.StoreUnavailable {
			_, err = im.library.catalog.writer.SaveChains(ctx, all[i].changes)
		}
		if err != nil {
			all[i].fail(err)
		}
	}
}
