package engine

import (
	"context"
	"embed"
	"fmt"
	"path"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

//go:embed builtin/*.md
var builtins embed.FS

// builtinHeads are the fixed ids of the built-in protocols' first steps.
var builtinHeads = map[string]string{"create.md": createUUID, "refine.md": refineUUID}

// ready stores the built-in protocols before the first call that could want
// them. A start alone touches nothing, because hosts start servers to probe them.
func (e *Engine) ready(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.seeded {
		return nil
	}
	for file, head := range builtinHeads {
		if err := e.seed(ctx, file, head); err != nil {
			return err
		}
	}
	e.seeded = true
	return nil
}

func (e *Engine) seed(ctx context.Context, file, head string) error {
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
	chain.Space, chain.ModelID = AppSpace, "kairos"
	old, err := e.store.Protocols.Chain(ctx, []string{AppSpace}, chain.ID)
	if err == nil && protocol.Render(old) == protocol.Render(chain) {
		return nil
	}
	if err != nil && fault.CodeOf(err) != fault.NotFound {
		return err
	}
	chain.CreatedAt, chain.UpdatedAt = e.opt.Now(), e.opt.Now()
	var stored *protocol.Chain
	if err == nil {
		stored = &old
	}
	chain = identify(chain, stored)
	chain.Steps[0].UUID = head
	_, err = e.store.Writer.SaveChains(ctx, []Change{replacing(chain, stored)})
	switch fault.CodeOf(err) {
	case fault.DuplicateChain, fault.Conflict:
		return nil // another process that started at the same time has stored it
	}
	return err
}
