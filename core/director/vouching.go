package director

import (
	"context"
	"fmt"
	"strings"

	"github.com/kairos-mcp/kairos/core/director/plan"
	"github.com/kairos-mcp/kairos/core/offers"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// allowable tells a person what would let a driver do the open step; empty: somebody
// has allowed one, or no driver does such steps.
func allowable(ctx context.Context, t *turn) string {
	if len(plan.GrantsHere(t.State)) > 0 {
		return ""
	}
	a, found := offers.First(ctx, t.setup, t.Task, t.Caller.Client)
	switch {
	case !found:
		return ""
	case a.Cannot != "":
		return fmt.Sprintf("Driver %s does such steps, and could not do this one now: %s.", a.Driver, strings.TrimSuffix(plain.Line(a.Cannot), "."))
	}
	return fmt.Sprintf("A person can allow KAIROS to do it: `kairos allow %s`.", t.Run.ID)
}
