// Package adoption gives what one principal has to another one, or moves it to a space:
// protocols, open runs, acceptances and declines. What has ended stays where it is: history is
// not rewritten.
package adoption

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/clock"
	"github.com/kairos-mcp/kairos/core/declines"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/runs"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Store is what an adoption reads and writes.
type Store struct {
	Protocols   library.Protocols
	Writer      library.ProtocolWriter
	Archive     archive.RunArchive
	Runs        *runs.Keeper
	Acceptances acceptances.Store
	Declines    declines.Store
	Clock       *clock.Clock
	// Stay are spaces whose runs keep their principal, because nobody else reads them.
	Stay []string
}

// Owner is a principal and its own space.
type Owner struct {
	Principal string `json:"principal,omitempty"` // empty, as the receiver: runs keep their principal
	Space     string `json:"space"`
}

// Report says what moves, or has moved.
type Report struct {
	From        Owner    `json:"from"`
	To          Owner    `json:"to"`
	Protocols   []string `json:"protocols"` // titles
	Runs        []run.ID `json:"runs"`
	Acceptances int      `json:"acceptances"`
	Declines    int      `json:"declines"`
	Moved       bool     `json:"moved"`
}

// adoption is what is to move.
type adoption struct {
	Store
	from, to  Owner
	chains    []protocol.Chain // as they are stored
	copied    []bool           // by an adoption that was interrupted
	runs      []run.ID
	accepted  []acceptances.Acceptance
	declined  []declines.Decline
	conflicts []string
}

// Look reports what would move and changes nothing. A protocol that the receiver has already,
// with other content, is fault.DuplicateChain.
func Look(ctx context.Context, s Store, from, to Owner) (Report, error) {
	a, err := plan(ctx, s, from, to)
	if err != nil {
		return Report{}, err
	}
	return a.report(), nil
}

// Move moves it. Each object moves whole. What is interrupted is completed by the next call, so
// that nothing is lost or there twice.
func Move(ctx context.Context, s Store, from, to Owner) (Report, error) {
	a, err := plan(ctx, s, from, to)
	if err != nil {
		return Report{}, err
	}
	// The old ones go last: an interrupted adoption finds them again.
	for _, do := range []func(context.Context) error{a.copyProtocols, a.copyAcceptances, a.copyDeclines, a.moveRuns, a.removeOld} {
		if err := do(ctx); err != nil {
			return Report{}, fmt.Errorf("adopt: %w; the same command completes it", err)
		}
	}
	report := a.report()
	report.Moved = true
	return report, nil
}

func (a *adoption) report() Report {
	r := Report{From: a.from, To: a.to, Protocols: []string{}, Runs: a.runs, Acceptances: len(a.accepted), Declines: len(a.declined)}
	for _, c := range a.chains {
		r.Protocols = append(r.Protocols, c.Title)
	}
	return r
}

func plan(ctx context.Context, s Store, from, to Owner) (*adoption, error) {
	a := &adoption{Store: s, from: from, to: to, runs: []run.ID{}}
	for _, find := range []func(context.Context) error{a.findProtocols, a.findRuns, a.findAcceptances, a.findDeclines} {
		if err := find(ctx); err != nil {
			return nil, fmt.Errorf("look for what moves: %w", err)
		}
	}
	if len(a.conflicts) > 0 {
		return nil, fault.New(fault.DuplicateChain, "%s has other protocols of the same name, so nothing was moved: %s", to.Space, strings.Join(a.conflicts, ", ")).
			WithHint("delete or rename one of each, then repeat the command")
	}
	if len(a.chains)+len(a.runs)+len(a.accepted)+len(a.declined) == 0 {
		return nil, fault.New(fault.NotFound, "nothing of %s can move: it has no protocols, open runs or acceptances", plain.Clip(from.Principal, 200))
	}
	return a, nil
}

// page is how many objects are listed at once.
const page = 500

func (a *adoption) findProtocols(ctx context.Context) error {
	for cursor := ""; ; {
		outlines, next, err := a.Protocols.List(ctx, a.from.Space, cursor, page)
		if err != nil {
			return err
		}
		for _, o := range outlines {
			c, err := a.Protocols.Chain(ctx, []string{a.from.Space}, o.ID)
			if err != nil {
				return err
			}
			copied, err := a.copiedBefore(ctx, c)
			if err != nil {
				return err
			}
			a.chains, a.copied = append(a.chains, c), append(a.copied, copied)
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// copiedBefore reports whether the receiver has the same protocol. Another one of that name is a conflict.
func (a *adoption) copiedBefore(ctx context.Context, c protocol.Chain) (bool, error) {
	there, err := a.Protocols.Chain(ctx, []string{a.to.Space}, c.ID)
	if fault.CodeOf(err) == fault.NotFound {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	have, err := there.ContentDigest()
	if err != nil {
		return false, err
	}
	want, err := c.ContentDigest()
	if err != nil {
		return false, err
	}
	if have != want {
		a.conflicts = append(a.conflicts, fmt.Sprintf("%q", plain.Clip(c.Title, 200)))
	}
	return have == want, nil
}

func (a *adoption) findRuns(ctx context.Context) error {
	for cursor := ""; ; {
		live, next, err := a.Archive.AllRuns(ctx, archive.Query{Principal: a.from.Principal, Live: true, Cursor: cursor, Limit: page})
		if err != nil {
			return err
		}
		for _, s := range live {
			_, _, moves, err := a.destination(ctx, s.ID)
			if err != nil {
				return err
			}
			if moves {
				a.runs = append(a.runs, s.ID)
			}
		}
		if cursor = next; cursor == "" {
			return nil
		}
	}
}

// destination is a run as it is now, with its protocol where that will be.
func (a *adoption) destination(ctx context.Context, id run.ID) (r run.Run, chain protocol.Chain, moves bool, err error) {
	if r, err = a.Runs.Read(ctx, id); err != nil {
		return r, chain, false, err
	}
	if chain, err = a.Runs.Pinned(ctx, r); err != nil {
		return r, chain, false, err
	}
	moves = r.State.Live() && r.Principal == a.from.Principal && !slices.Contains(a.Stay, chain.Space) && (a.to.Principal != "" || chain.Space == a.from.Space)
	if chain.Space == a.from.Space {
		chain = chain.Clone()
		chain.Space = a.to.Space
	}
	return r, chain, moves, nil
}

func (a *adoption) findAcceptances(ctx context.Context) (err error) {
	a.accepted, err = a.Acceptances.Acceptances(ctx, []string{a.from.Space})
	return err
}

func (a *adoption) findDeclines(ctx context.Context) error {
	all, err := a.Declines.DeclinesOf(ctx, a.from.Principal, a.from.Space)
	a.declined = slices.DeleteFunc(all, func(d declines.Decline) bool { return a.received(d) == place{d.Principal, d.Space} })
	return err
}

type place struct{ principal, space string }

// received is whose a decline will be, and where.
func (a *adoption) received(d declines.Decline) place {
	p := place{d.Principal, d.Space}
	if p.principal == a.from.Principal && a.to.Principal != "" {
		p.principal = a.to.Principal
	}
	if p.space == a.from.Space {
		p.space = a.to.Space
	}
	return p
}

func (a *adoption) copyProtocols(ctx context.Context) error {
	var changes []library.Change
	for i, c := range a.chains {
		if a.copied[i] {
			continue
		}
		c = c.Clone()
		c.Space = a.to.Space
		changes = append(changes, library.Change{Chain: c})
	}
	if len(changes) == 0 {
		return nil
	}
	_, err := a.Writer.SaveChains(ctx, changes)
	return err
}

func (a *adoption) copyAcceptances(ctx context.Context) error {
	received := slices.Clone(a.accepted)
	for i := range received {
		received[i].ID, received[i].Space = a.Clock.NewID(), a.to.Space
	}
	return a.Acceptances.SaveAcceptances(ctx, received)
}

func (a *adoption) copyDeclines(ctx context.Context) error {
	for _, d := range a.declined {
		now := a.received(d)
		d.Principal, d.Space = now.principal, now.space
		if err := a.Declines.SaveDecline(ctx, d, time.Time{}); err != nil {
			return err
		}
	}
	return nil
}

func (a *adoption) moveRuns(ctx context.Context) error {
	for _, id := range a.runs {
		if _, err := runs.Again(func() (struct{}, error) { return struct{}{}, a.moveRun(ctx, id) }); err != nil {
			return fmt.Errorf("run %s: %w", id, err)
		}
	}
	return nil
}

func (a *adoption) moveRun(ctx context.Context, id run.ID) error {
	r, chain, moves, err := a.destination(ctx, id)
	if err != nil || !moves {
		return err
	}
	o := run.Owner{From: r.Principal, Principal: r.Principal, Space: a.to.Space}
	if a.to.Principal != "" {
		o.Principal = a.to.Principal
	}
	if o.Pin, err = library.Digest(chain); err != nil {
		return err
	}
	change := a.Runs.Change(r, chain)
	if err := change.Adopt(o, chain, "the operator moved what "+a.from.Principal+" had"); err != nil {
		return err
	}
	_, err = change.Save(ctx)
	return err
}

func (a *adoption) removeOld(ctx context.Context) error {
	for _, g := range a.accepted {
		if _, err := a.Acceptances.RemoveAcceptance(ctx, []string{a.from.Space}, g.ID); err != nil {
			return err
		}
	}
	for _, d := range a.declined {
		if err := a.Declines.RemoveDecline(ctx, d); err != nil {
			return err
		}
	}
	for _, c := range a.chains {
		if err := a.Writer.DeleteChain(ctx, a.from.Space, c.ID, c.Revision); err != nil {
			return err
		}
	}
	return nil
}
