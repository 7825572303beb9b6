package library

import (
	"context"
	"embed"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

//go:embed builtin/*.md
var builtins embed.FS

// builtinHeads are the fixed ids of the built-in protocols' first steps.
var builtinHeads = map[string]string{"create.md": createUUID, "refine.md": refineUUID}

// ready stores the built-in protocols before the first call that needs them.
// Starting the server touches nothing, because hosts start servers to probe them.
func (k *catalog) ready(ctx context.Context) error {
	if k.seeded.Load() {
		return nil
	}
	select {
	case <-k.seeding: // one caller at a time; a store that hangs blocks nobody beyond their deadline
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { k.seeding <- struct{}{} }()
	if k.seeded.Load() {
		return nil
	}
	for file, head := range builtinHeads {
		if err := k.seed(ctx, file, head); err != nil {
			return err
		}
	}
	k.seeded.Store(true)
	return nil
}

// seed stores a built-in protocol. It replaces one that another version of the
// program stored.
func (k *catalog) seed(ctx context.Context, file, head string) error {
	doc, err := builtins.ReadFile(path.Join("builtin", file))
	if err != nil {
		return err
	}
	chains, found := protocol.Parse(doc)
	for _, d := range found {
		if d.Severity == driver.SeverityError {
			return fmt.Errorf("built-in protocol %s: %s", file, d)
		}
	}
	chain := chains[0]
	chain.Space, chain.ModelID = access.AppSpace, "kairos"
	// Another process that starts at the same time may be first.
	return whileOvertaken(ctx, func() error {
		old, err := k.stored(ctx, chain)
		if err != nil {
			return err
		}
		if old != nil && old.Steps[0].UUID == head && sameContent(*old, chain) {
			return nil
		}
		return k.save(ctx, rewriting(builtin(chain, old, head, k.clock.Now()), old))
	})
}

// builtin gives the chain its ids. The first step always has the same one.
func builtin(chain protocol.Chain, old *protocol.Chain, head string, now time.Time) protocol.Chain {
	chain.Steps = slices.Clone(chain.Steps)
	chain.CreatedAt, chain.UpdatedAt = now, now
	chain = identify(chain, old)
	for i := range chain.Steps {
		if chain.Steps[i].UUID == head {
			chain.Steps[i].UUID = chain.Steps[0].UUID // what was the first step has moved down
		}
	}
	chain.Steps[0].UUID = head
	return chain
}
