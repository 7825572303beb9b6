package director

import (
	"context"

	"github.com/kairos-mcp/kairos/core/run"
)

// Run reads a run as a call would, from what this engine knows of it.
func (e *Engine) Run(ctx context.Context, id run.ID) (run.Run, error) {
	return e.parts.Runs.Read(ctx, id)
}
