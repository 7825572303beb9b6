package offers

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/kairos-mcp/kairos/core/acceptances"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// Earlier is a version of a protocol that was accepted before it was edited.
type Earlier struct {
	AcceptedAt time.Time `json:"accepted_at"`
	// Diff is the hunks of a unified diff of the documents; empty: the
	// version is not stored any more. It is text of the protocol, made safe to show.
	Diff string `json:"diff,omitempty"`
}

const (
	maxDiff     = 4000 // characters
	maxVersions = 100  // that are looked through
)

// String tells a person what changed.
func (r Earlier) String() string {
	accepted := fmt.Sprintf("An earlier version was accepted on %s.", r.AcceptedAt.UTC().Format("2006-01-02 15:04 MST"))
	if r.Diff == "" {
		return accepted + " It is not stored any more, so what changed since cannot be shown."
	}
	return accepted + " This changed since:\n" + r.Diff
}

// changedSince returns the version of the protocol that was last accepted for every
// run, if it is another one than this; nil: there is none.
func (o *Offers) changedSince(ctx context.Context, chain protocol.Chain, digest string) (*Earlier, error) {
	g, found, err := o.acceptances.Latest(ctx, chain.Space, chain.ID)
	if err != nil || !found || g.Protocol == digest {
		return nil, err
	}
	r := &Earlier{AcceptedAt: g.At}
	old, found, err := versionOf(ctx, o.protocols, chain, g)
	if err == nil && found {
		diff := protocol.Changes("accepted", "now", protocol.Render(old), protocol.Render(chain))
		_, diff, _ = strings.Cut(diff, "@@") // behind the names
		if r.Diff = strings.TrimSpace(plain.Text("@@" + diff)); len(r.Diff) > maxDiff {
			r.Diff = plain.Clip(r.Diff, maxDiff) + "\n... `kairos protocols diff` shows the rest"
		}
	}
	return r, err
}

// versionOf returns the stored version that was accepted.
func versionOf(ctx context.Context, history Protocols, chain protocol.Chain, g acceptances.Acceptance) (old protocol.Chain, found bool, err error) {
	spaces := []string{chain.Space}
	versions, err := history.Versions(ctx, spaces, chain.ID)
	if fault.CodeOf(err) == fault.NotFound {
		return old, false, nil
	}
	if err != nil {
		return old, false, fmt.Errorf("look for the version that was accepted: %w", err)
	}
	for _, v := range versions[:min(len(versions), maxVersions)] {
		if v.Deleted {
			continue
		}
		old, err := history.Version(ctx, spaces, chain.ID, v.Revision)
		if fault.CodeOf(err) == fault.NotFound {
			continue // removed meanwhile
		}
		if err != nil {
			return old, false, fmt.Errorf("read revision %d of the protocol: %w", v.Revision, err)
		}
		if digest, err := old.ContentDigest(); err == nil && digest == g.Protocol {
			return old, true, nil
		}
	}
	return old, false, nil
}
