package library

import (
	"context"
	"slices"
	"strconv"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/audit"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// RestoreReply describes a restored version.
type RestoreReply struct {
	ChainID  string `json:"chain_id"`
	Title    string `json:"title"`
	Restored int64  `json:"restored"` // the revision that is stored again
	// Changed is false if exactly this version was stored already.
	Changed  bool                  `json:"changed"`
	Items    []api.MintItem        `json:"items"`
	Warnings []protocol.Diagnostic `json:"warnings,omitempty"`
}

// Restore stores an old version as the newest one, step UUIDs included. Revision 0
// means the version before the newest, and for a deleted protocol the last one. A
// driver that rejects the old version or does not answer only causes a warning: a
// newer driver must not make stored protocols unrecoverable.
func (l *Library) Restore(ctx context.Context, c access.Caller, ref string, revision int64) (reply RestoreReply, err error) {
	doing, err := l.opt.Audit.Begin(ctx, c, audit.Act{Action: audit.ProtocolRestore})
	if err != nil {
		return RestoreReply{}, err
	}
	defer doing.End(&err)
	j, release := hold(l.setups)
	defer release()
	e := edit{l, j, c}
	err = whileOvertaken(ctx, func() (err error) {
		reply, err = e.restore(ctx, ref, revision, doing)
		return err
	})
	doing.Note("changed", strconv.FormatBool(reply.Changed))
	return reply, err
}

func (e edit) restore(ctx context.Context, ref string, revision int64, doing *audit.Doing) (RestoreReply, error) {
	p, err := e.library.versions.of(ctx, e.caller, ref)
	if err != nil {
		return RestoreReply{}, err
	}
	if revision == 0 {
		present := p.versions[0].Revision
		revision = p.newest(func(old Version) bool { return old.Revision != present })
	}
	if revision == 0 {
		return RestoreReply{}, fault.New(fault.NotFound, "%q has no version before the present one", p.versions[0].Title)
	}
	chain, err := e.library.versions.at(ctx, p, revision)
	if err != nil {
		return RestoreReply{}, err
	}
	doing.On(chain.Space, chain.ID)
	if err := checkWrite(e.caller, "protocol_restore", chain); err != nil {
		return RestoreReply{}, err
	}
	old, err := e.library.catalog.stored(ctx, chain)
	if err != nil {
		return RestoreReply{}, err
	}
	reply := RestoreReply{ChainID: chain.ID, Title: chain.Title, Restored: revision, Items: items(chain)}
	if old != nil && (old.Revision == revision || sameContent(*old, chain) && slices.Equal(stepUUIDs(*old), stepUUIDs(chain))) {
		return reply, nil
	}
	for i := range chain.Steps {
		reply.Warnings = append(reply.Warnings, e.judge.again(ctx, chain, i)...)
	}
	chain.UpdatedAt = e.library.opt.Clock.Now()
	w := rewriting(chain, old)
	if err := e.library.catalog.save(ctx, w); err != nil {
		return RestoreReply{}, err
	}
	e.library.ratings.rateStored(w, "kairos_restore")
	e.library.meanings.add(ctx, chain)
	reply.Changed = true
	return reply, nil
}

// again validates a step of an old version with the current driver. The templates
// that the driver allows take effect; its errors become warnings.
func (j judge) again(ctx context.Context, chain protocol.Chain, i int) []protocol.Diagnostic {
	s := &chain.Steps[i]
	before := s.Templates
	found, err := j.step(ctx, chain, i)
	if err != nil {
		s.Templates = before
		found = []protocol.Diagnostic{*s.Problem("", plain.Clip(err.Error(), 600))}
	}
	for i := range found {
		found[i].Severity = driver.SeverityWarning
	}
	return found
}
