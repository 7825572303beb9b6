package library

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// HistoryReply is what a protocol was, newest first.
type HistoryReply struct {
	ChainID  string           `json:"chain_id"`
	Title    string           `json:"title"`
	Space    string           `json:"space"` // as SpaceInfo.Name
	Deleted  bool             `json:"deleted"`
	Versions []HistoryVersion `json:"versions"`
}

// HistoryVersion is one state of a protocol.
type HistoryVersion struct {
	Revision  int64     `json:"revision"`
	Title     string    `json:"title"`
	StepCount int       `json:"step_count"`
	ModelID   string    `json:"model_id,omitempty"`
	SavedAt   time.Time `json:"saved_at"`
	Deleted   bool      `json:"deleted,omitempty"` // the protocol was deleted with this revision
}

// VersionReply is a protocol as it was.
type VersionReply struct {
	ChainID  string `json:"chain_id"`
	Title    string `json:"title"`
	Revision int64  `json:"revision"`
	Document string `json:"markdown_doc"`
}

// RestoreReply says what was restored.
type RestoreReply struct {
	ChainID  string `json:"chain_id"`
	Title    string `json:"title"`
	Restored int64  `json:"restored"` // the revision that is stored again
	// Changed: false when just that was stored already, and nothing was done.
	Changed  bool                  `json:"changed"`
	Items    []api.MintItem        `json:"items"`
	Warnings []protocol.Diagnostic `json:"warnings,omitempty"`
}

// History lists the versions of a protocol, also of a deleted one. The
// reference is a step's URI or UUID, a chain id, or the exact title.
func (l *Library) History(ctx context.Context, c access.Caller, ref string) (HistoryReply, error) {
	p, err := l.past(ctx, c, ref)
	if err != nil {
		return HistoryReply{}, err
	}
	reply := HistoryReply{
		ChainID: p.id, Title: p.versions[0].Title, Space: spaceName(c, p.space), Deleted: p.versions[0].Deleted,
		Versions: make([]HistoryVersion, len(p.versions)),
	}
	for i, v := range p.versions {
		reply.Versions[i] = HistoryVersion(v)
	}
	return reply, nil
}

// Version returns a protocol as it was at a revision of its History; 0: the
// newest one.
func (l *Library) Version(ctx context.Context, c access.Caller, ref string, revision int64) (VersionReply, error) {
	p, err := l.past(ctx, c, ref)
	if err != nil {
		return VersionReply{}, err
	}
	if revision == 0 {
		revision = p.newest(func(Version) bool { return true })
	}
	chain, err := l.version(ctx, p, revision)
	if err != nil {
		return VersionReply{}, err
	}
	return VersionReply{ChainID: chain.ID, Title: chain.Title, Revision: revision, Document: protocol.Render(chain)}, nil
}

// Restore stores an old version as the newest one, step UUIDs included; 0: the
// one before the newest, and of a deleted protocol the last one. It always
// works: where a driver has become stricter since or does not answer, that is a
// warning, for what was stored once must not be lost to a newer driver.
func (l *Library) Restore(ctx context.Context, c access.Caller, ref string, revision int64) (RestoreReply, error) {
	h, release := l.hold()
	defer release()
	var reply RestoreReply
	err := whileOvertaken(ctx, func() (err error) {
		reply, err = h.restore(ctx, c, ref, revision)
		return err
	})
	return reply, err
}

func (l withSetup) restore(ctx context.Context, c access.Caller, ref string, revision int64) (RestoreReply, error) {
	p, err := l.past(ctx, c, ref)
	if err != nil {
		return RestoreReply{}, err
	}
	if revision == 0 {
		present := p.versions[0].Revision
		revision = p.newest(func(v Version) bool { return v.Revision != present })
	}
	if revision == 0 {
		return RestoreReply{}, fault.New(fault.NotFound, "%q has no version before the present one", p.versions[0].Title)
	}
	chain, err := l.version(ctx, p, revision)
	if err != nil {
		return RestoreReply{}, err
	}
	if err := checkWrite(c, chain); err != nil {
		return RestoreReply{}, err
	}
	old, err := l.stored(ctx, chain)
	if err != nil {
		return RestoreReply{}, err
	}
	reply := RestoreReply{ChainID: chain.ID, Title: chain.Title, Restored: revision, Items: items(chain)}
	if old != nil && (old.Revision == revision || sameContent(*old, chain) && slices.Equal(stepUUIDs(*old), stepUUIDs(chain))) {
		return reply, nil
	}
	for i := range chain.Steps {
		reply.Warnings = append(reply.Warnings, l.judgeAgain(ctx, chain, i)...)
	}
	chain.UpdatedAt = l.opt.Clock.Now()
	w := rewriting(chain, old)
	if err := l.save(ctx, w); err != nil {
		return RestoreReply{}, err
	}
	l.rateStored(w, "kairos_restore")
	l.embed(ctx, chain)
	reply.Changed = true
	return reply, nil
}

// judgeAgain lets the driver of today judge a step of old. What it says of
// templates counts; what it refuses is a warning.
func (l withSetup) judgeAgain(ctx context.Context, chain protocol.Chain, i int) []protocol.Diagnostic {
	s := &chain.Steps[i]
	before := s.Templates
	found, err := l.judgeStep(ctx, chain, i)
	if err != nil {
		s.Templates = before
		found = []protocol.Diagnostic{*s.Problem("", plain.Clip(err.Error(), 600))}
	}
	for i := range found {
		found[i].Severity = driver.SeverityWarning
	}
	return found
}

// past is the history of one protocol.
type past struct {
	id, space string
	versions  []Version // newest first, at least one
}

// newest is the first revision that fits and can be read; 0: there is none.
func (p past) newest(fits func(Version) bool) int64 {
	for _, v := range p.versions {
		if !v.Deleted && fits(v) {
			return v.Revision
		}
	}
	return 0
}

// version reads one revision of the past.
func (l *Library) version(ctx context.Context, p past, revision int64) (protocol.Chain, error) {
	chain, err := l.store.Versions.Version(ctx, []string{p.space}, p.id, revision)
	if fault.CodeOf(err) == fault.NotFound {
		return chain, fault.New(fault.NotFound, "%q has no revision %d that can be read; `kairos history %s` lists them", p.versions[0].Title, revision, p.id)
	}
	if err != nil {
		return chain, fmt.Errorf("read revision %d of %q: %w", revision, p.versions[0].Title, err)
	}
	return chain, nil
}

// past finds the history that a reference means.
func (l *Library) past(ctx context.Context, c access.Caller, ref string) (past, error) {
	if err := l.Ready(ctx); err != nil {
		return past{}, err
	}
	ref = strings.TrimSpace(ref)
	if ref == "" {
		return past{}, fault.New(fault.InvalidArgument, "name a protocol by a step's URI, its id or its title")
	}
	places := []past{{id: protocol.ChainID(ref)}}
	if id, isURI := uuidIn(ref); isURI {
		chain, err := l.holder(ctx, c, id)
		switch {
		case err == nil:
			places = []past{{id: chain.ID, space: chain.Space}}
		case fault.CodeOf(err) != fault.NotFound:
			return past{}, err
		default:
			places = []past{{id: id}, places[0]}
		}
	}
	for _, p := range places {
		found, err := l.versionsOf(ctx, c, p)
		if fault.CodeOf(err) != fault.NotFound {
			return found, err
		}
	}
	return past{}, fault.New(fault.NotFound, "no protocol %q in your spaces, and none was", plain.Clip(ref, 200)).WithNext("%s", SearchFirst)
}

// uuidIn is the UUID that a reference is, or ends in after a slash.
func uuidIn(ref string) (string, bool) {
	id, err := uuid.Parse(ref[strings.LastIndex(ref, "/")+1:])
	return id.String(), err == nil
}

// holder is the chain that has the step, or had it.
func (l *Library) holder(ctx context.Context, c access.Caller, step string) (protocol.Chain, error) {
	chain, _, err := l.store.Protocols.StepChain(ctx, c.Spaces(), step)
	if fault.CodeOf(err) == fault.NotFound {
		f, err := l.store.Protocols.Former(ctx, c.Spaces(), step)
		return f.Chain, err
	}
	return chain, err
}

// versionsOf reads the history of a chain in the space, or in the first of the
// caller's that has one: of a chain that is there before one that was.
func (l *Library) versionsOf(ctx context.Context, c access.Caller, p past) (past, error) {
	spaces := c.Spaces()
	if p.space != "" {
		spaces = []string{p.space}
	} else if chain, err := l.store.Protocols.Chain(ctx, spaces, p.id); err == nil {
		spaces = []string{chain.Space}
	} else if fault.CodeOf(err) != fault.NotFound {
		return past{}, err
	}
	for _, space := range spaces {
		versions, err := l.store.Versions.Versions(ctx, []string{space}, p.id)
		switch {
		case fault.CodeOf(err) == fault.NotFound || err == nil && len(versions) == 0:
			continue
		case err != nil:
			return past{}, fmt.Errorf("read the history of %s: %w", p.id, err)
		}
		return past{id: p.id, space: space, versions: versions}, nil
	}
	return past{}, fault.New(fault.NotFound, "no history of %s", p.id)
}
