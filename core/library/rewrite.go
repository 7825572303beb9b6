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

// rewrite is a chain to store and the one it replaces.
type rewrite struct {
	Change
	old *protocol.Chain // nil: none
}

// rewriting replaces old by chain; old may be nil.
func rewriting(chain protocol.Chain, old *protocol.Chain) rewrite {
	w := rewrite{Change: Change{Chain: chain}, old: old}
	if old != nil {
		w.Replaces = old.Revision
	}
	return w
}

// sameContent reports whether both chains have the same content, whoever stored
// them and when. White space in challenges does not count: a store may drop it.
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
	return fault.Wrap(cause, fault.Conflict, "other writers kept changing the protocol; nothing was stored").
		WithNext("make the call again")
}

// overtakes bounds how often a change is retried after a conflict. One of the
// writers succeeds each time, so this many concurrent writers are served.
const overtakes = 50

// whileOvertaken repeats a change, including its reads, while it ends in a
// conflict.
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
