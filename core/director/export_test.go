package director

import (
	"context"

	"github.com/kairos-mcp/kairos/core/run"
)

// Claims is for how many runs somebody drives or waits to.
func (e *Engine) Claims() int { return e.parts.Runs.Claims() }

// Users is how many calls drive the run or wait to.
func (e *Engine) Users(id run.ID) int { return e.parts.Runs.Users(id) }

// Run reads a run as a call would, from what this engine knows of it.
func (e *Engine) Run(ctx context.Context, id run.ID) (run.Run, error) {
	return e.parts.Runs.Read(ctx, id)
}
