package library

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// Written is a protocol as a document.
type Written struct {
	Record   Record
	Document string
	// Older versions, oldest first; only with ExportInput.History.
	Older []Written
}

// ExportInput says what to export.
type ExportInput struct {
	Space   string // as in api.MintRequest, but empty means all spaces the caller may write to
	History bool
}

// Export yields the protocols of the caller's spaces except the built-in ones,
// ordered by space and title. It ends at the first error.
func (l *Library) Export(ctx context.Context, c access.Caller, in ExportInput) iter.Seq2[Written, error] {
	x := exporter{l, in.History}
	return func(yield func(Written, error) bool) {
		err := l.opt.Audit.Do(ctx, c, audit.Act{Action: audit.ProtocolExport}, func(doing *audit.Doing) error {
			spaces, err := exported(c, in.Space)
			doing.On(strings.Join(spaces, " "), "")
			if err != nil {
				return err
			}
			return x.all(ctx, spaces, doing, yield)
		})
		if err != nil {
			yield(Written{}, err)
		}
	}
}

// exported are the named space, or all that the caller may change.
func exported(c access.Caller, name string) ([]string, error) {
	if strings.TrimSpace(name) == "" {
		return c.Writable(), nil
	}
	space, err := mintSpace(c, name)
	return []string{space}, err
}

// all yields the protocols of the spaces.
func (x exporter) all(ctx context.Context, spaces []string, doing *audit.Doing, yield func(Written, error) bool) error {
	for _, space := range spaces {
		for w, err := range x.space(ctx, space) {
			if err != nil {
				return err
			}
			if !yield(w, nil) {
				doing.Note("read", "in part")
				return nil // whoever reads wants no more
			}
		}
	}
	return nil
}

// exporter writes stored protocols as documents.
type exporter struct {
	library *Library
	history bool // with older versions
}

func (x exporter) space(ctx context.Context, space string) iter.Seq2[Written, error] {
	return func(yield func(Written, error) bool) {
		enough := errors.New("the caller has stopped reading")
		err := x.library.catalog.each(ctx, space, func(outline protocol.Chain) error {
			w, err := x.chain(ctx, space, outline.ID)
			if fault.CodeOf(err) == fault.NotFound {
				return nil // deleted meanwhile
			}
			if err == nil && !yield(w, nil) {
				return enough
			}
			return err
		})
		if err != nil && !errors.Is(err, enough) {
			yield(Written{}, err)
		}
	}
}

func (x exporter) chain(ctx context.Context, space, id string) (Written, error) {
	chain, err := x.library.catalog.protocols.Chain(ctx, []string{space}, id)
	if err != nil {
		return Written{}, fmt.Errorf("read protocol %s: %w", id, err)
	}
	w := Written{Record: RecordOf(chain), Document: protocol.Render(chain)}
	if w.Record.Quality, err = x.library.store.Ratings.Quality(ctx, space, stepUUIDs(chain)); err != nil {
		return Written{}, fmt.Errorf("read the ratings of %q: %w", chain.Title, err)
	}
	if !x.history {
		return w, nil
	}
	versions, err := x.library.store.Versions.Versions(ctx, []string{space}, id)
	if err != nil {
		return Written{}, fmt.Errorf("read the history of %q: %w", chain.Title, err)
	}
	for _, v := range slices.Backward(versions) {
		if v.Deleted || v.Revision >= chain.Revision {
			continue
		}
		old, err := x.library.store.Versions.Version(ctx, []string{space}, id, v.Revision)
		if fault.CodeOf(err) == fault.NotFound {
			continue // the oldest versions may be dropped at any time
		}
		if err != nil {
			return Written{}, fmt.Errorf("read revision %d of %q: %w", v.Revision, chain.Title, err)
		}
		w.Older = append(w.Older, Written{Record: RecordOf(old), Document: protocol.Render(old)})
	}
	return w, nil
}
