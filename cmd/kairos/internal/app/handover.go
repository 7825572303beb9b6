package app

import (
	"log/slog"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/handover"
)

// newHandover returns the writer of the handover file, or nil if there is none. If
// only the user's own programs can name folders, any folder is accepted.
func newHandover(c config.Config, reached bool, log *slog.Logger) *handover.Writer {
	if c.Handover == (config.HandoverConfig{}) {
		return nil
	}
	k := handover.Config{Dir: c.Handover.Dir}
	if c.Handover.InRoot {
		k.Allowed, k.AnyRoot = c.RootsAllowed(), !reached
	}
	return handover.New(k, log)
}
