package app

import (
	"log/slog"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/handover"
)

// newHandover makes the keeper of the file; nil: there is to be none. A folder that
// a run names counts wherever it is if only the user's own programs name some.
func newHandover(c config.Config, reached bool, log *slog.Logger) *handover.Keeper {
	if c.Handover == (config.HandoverConfig{}) {
		return nil
	}
	k := handover.Config{Dir: c.Handover.Dir, Secret: c.StateKey}
	if c.Handover.InRoot {
		k.Allowed, k.AnyRoot = c.RootsAllowed(), !reached
	}
	return handover.New(k, log)
}
