package director

import (
	"context"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/run"
)

// Unfinished is a run that an earlier session left open.
type Unfinished struct {
	Run   run.ID
	Title string // of its protocol
	URI   string // of the protocol's first step
	// Step of Steps is open; Step is beyond Steps when all are solved.
	Step, Steps int
}

// Unfinished returns the newest of the caller's recent runs that is still open and was neither
// begun nor resumed on the caller's connection; nil: there is none.
func (e *Engine) Unfinished(ctx context.Context, c access.Caller) (*Unfinished, error) {
	s, err := e.parts.Runs.Unfinished(ctx, c)
	if err != nil || s == nil {
		return nil, err
	}
	return &Unfinished{Run: s.Run.ID, Title: s.Run.Title, URI: s.URI, Step: s.Run.StepIndex, Steps: s.Run.StepCount}, nil
}
