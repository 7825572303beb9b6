package runs

import (
	"context"
	"fmt"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/fault"
)

// recent is how many of the principal's last runs are searched for one that is still open,
// so that the cost does not depend on how many runs there are.
const recent = 64

// Unfinished returns the newest of the caller's recent runs that is still open and was neither
// begun nor resumed on the caller's connection; nil: there is none.
func (k *Keeper) Unfinished(ctx context.Context, c access.Caller) (*Standing, error) {
	found, err := k.store.Index.LastOpen(ctx, OpenQuery{Principal: c.Principal, Spaces: c.Spaces(), Limit: recent})
	if err != nil {
		return nil, fmt.Errorf("find an unfinished run: %w", err)
	}
	for _, s := range found {
		if k.Expired(s) || c.Connection != "" && s.Connection == c.Connection {
			continue
		}
		change, err := k.Open(ctx, c, s.ID)
		switch {
		case fault.CodeOf(err) == fault.NotFound || err == nil && !change.Run.State.Live():
			continue // it ended, or was removed, since it was found
		case err != nil:
			return nil, err
		}
		standing := standingOf(change.Run, change.Chain)
		return &standing, nil
	}
	return nil, nil
}
