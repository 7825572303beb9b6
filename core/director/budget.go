package director

import (
	"fmt"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// expense is one request to a model, reserved before it is made. Its methods
// do nothing on the expense of a driver that asks no model.
type expense struct {
	t      *turn
	cost   run.Spent
	minute int64 // of the reservation
	spent  bool
}

// afford reserves what asking a model for the input costs, and says why the
// budgets do not allow it. in is changed to what the model is granted.
func (t *turn) afford(in *driver.Input, desc driver.Descriptor) (x *expense, why string) {
	x = &expense{t: t}
	if !desc.Has(driver.FeatureModel) || input.Of(in.Kind).Approves {
		return x, ""
	}
	// A driver's input may say anything; a cost below nothing would refund.
	if in.MaxTokens = min(in.MaxTokens, protocol.MaxTokens); in.MaxTokens < 1 {
		in.MaxTokens = driver.DefaultMaxTokens
	}
	cost := run.Spent{Requests: 1, Tokens: in.MaxTokens}
	budgets := t.e.opt.Budgets
	if over := budgets.PerRun.Exceeded(t.Run.Spent.Plus(t.spent), cost); over != "" {
		return x, fmt.Sprintf("this run's budget for language models, %s", over)
	}
	x.minute = t.e.opt.Clock.Now().Unix() / 60
	if over := t.e.hourly.Reserve(t.Run.Principal, x.minute, cost, budgets.PerPrincipalHour); over != "" {
		return x, fmt.Sprintf("this caller's budget for language models in an hour, %s now", over)
	}
	x.cost = cost
	return x, ""
}

// spend: the request is made. The run keeps the cost with its next event.
func (x *expense) spend() {
	if !x.spent {
		x.t.spent = x.t.spent.Plus(x.cost)
	}
	x.spent = true
}

// release gives back what was not spent.
func (x *expense) release() {
	if !x.spent && x.cost != (run.Spent{}) {
		x.t.e.hourly.Release(x.t.Run.Principal, x.minute, x.cost)
	}
}
