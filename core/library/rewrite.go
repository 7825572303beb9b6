package library

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
)

// rewrite is a chain that is to be stored and the one it replaces.
type rewrite struct {
	Change
	old *protocol.Chain // nil: none
}

// rewriting puts chain where old is; nil: where nothing is.
func rewriting(chain protocol.Chain, old *protocol.Chain) rewrite {
	w := rewrite{Change: Change{Chain: chain}, old: old}
	if old != nil {
		w.Replaces = old.Revision
	}
	return w
}

// sameContent reports whether both chains say the same, whoever stored them
// when. Blanks in challenges do not count: a store may leave them out.
func sameContent(a, b protocol.Chain) bool {
	x, badX := json.Marshal(content(a))
	y, badY := json.Marshal(content(b))
	return badX == nil && badY == nil && bytes.Equal(x, y)
}

func content(c protocol.Chain) protocol.Chain {
	c.Revision, c.Space, c.ModelID, c.CreatedAt, c.UpdatedAt = 0, "", "", time.Time{}, time.Time{}
	c.Steps = slices.Clone(c.Steps)
	for i := range c.Steps {
		c.Steps[i].UUID, c.Steps[i].Templates = "", nil
	}
	return c
}

func overtaken(cause error) error {
	return fault.Wrap(cause, fault.Conflict, "the protocol was changed by others again and again meanwhile; nothing was stored").
		WithNext("make the call again")
}

// overtakes bounds how often a change is made anew because another writer was
// first. Each time one of the writers gets on, so it takes as many of them.
const overtakes = 50

// whileOvertaken repeats a change, from the reading on, as long as another
// writer is first.
func whileOvertaken(ctx context.Context, change func() error) (err error) {
	for range overtakes {
		if err = change(); fault.CodeOf(err) != fault.Conflict {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return overtaken(err)
}
