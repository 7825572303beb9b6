package mcp_test

import (
	"context"
	"testing"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/run"
	mcpserver "github.com/kairos-mcp/kairos/core/server/mcp"
)

// announcing is an engine that looks, like a second call would, at the very
// moment when a question is in the run and nobody has joined it yet.
type announcing struct {
	mcpserver.Engine
	before, after, another chan bool
}

func (e announcing) Next(ctx context.Context, c access.Caller, in api.NextRequest) (director.Round, error) {
	const id = run.ID("01900000-0000-7000-8000-000000000001")
	e.before <- c.Holding(id, 7)
	c.Asked(id, 7)
	e.after <- c.Holding(id, 7)
	e.another <- c.Holding(id, 8)
	return e.Engine.Next(ctx, c, in)
}

// Else the person would be asked once by each of two calls.
func TestAQuestionIsHeldFromTheMomentItCanBeSeen(t *testing.T) {
	e := announcing{newDirector(), make(chan bool, 1), make(chan bool, 1), make(chan bool, 1)}
	w := dial(t, config(), e)
	w.initialize(`{"elicitation":{}}`)
	w.reply(w.call("kairos_next", obj{"uri": "kairos://mem/11111111-1111-4111-8111-111111111111", "solution": obj{"type": "shell"}}))
	if <-e.before || !<-e.after || <-e.another {
		t.Error("held before it was asked, not held after, or another held")
	}
}
