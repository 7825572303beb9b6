package director

import (
	"fmt"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/director/input"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// Budgets bound what language models are asked, by drivers that have the
// feature driver.FeatureModel.
type Budgets struct {
	// PerRun is for one run, from its beginning to its end.
	PerRun Budget
	// PerPrincipalHour is for all runs of a principal within any hour. It is
	// counted by this process alone and forgotten when it ends.
	PerPrincipalHour Budget
}

// Budget is a number of requests and of tokens. Zero: as many as you like.
// Tokens are those that the model was granted for its answer: MCP clients do
// not say how many it used.
type Budget struct {
	Requests, Tokens int
}

// exceeded says how much the budget is and why it does not allow one more
// request, or nothing.
func (b Budget) exceeded(spent, cost run.Spent) string {
	switch {
	case b.Requests > 0 && spent.Requests+cost.Requests > b.Requests:
		if b.Requests == 1 {
			return "1 request, is used up: it does not allow another one"
		}
		return fmt.Sprintf("%d requests, is used up: it does not allow another one", b.Requests)
	case b.Tokens > 0 && spent.Tokens+cost.Tokens > b.Tokens:
		return fmt.Sprintf("%d tokens, does not allow another request of %d tokens", b.Tokens, cost.Tokens)
	}
	return ""
}

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
	if over := budgets.PerRun.exceeded(t.Run.Spent.Plus(t.spent), cost); over != "" {
		return x, fmt.Sprintf("this run's budget for language models, %s", over)
	}
	x.minute = t.e.opt.Clock.Now().Unix() / 60
	if over := t.e.hourly.reserve(t.Run.Principal, x.minute, cost, budgets.PerPrincipalHour); over != "" {
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
		x.t.e.hourly.release(x.t.Run.Principal, x.minute, x.cost)
	}
}

// hourly counts what each principal spent in the last hour, minute by minute.
type hourly struct {
	mu    sync.Mutex // guards the field below
	spent map[string]map[int64]run.Spent
}

// sweepAt is the number of principals at which those who spent nothing lately
// are forgotten.
const sweepAt = 1024

// reserve adds the cost, unless it would exceed the budget, of which it then
// says the part.
func (h *hourly) reserve(principal string, minute int64, cost run.Spent, b Budget) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b == (Budget{}) {
		return ""
	}
	if h.spent == nil {
		h.spent = make(map[string]map[int64]run.Spent)
	}
	if over := b.exceeded(h.total(principal, minute), cost); over != "" {
		return over
	}
	if h.spent[principal] == nil {
		h.sweep(minute)
		h.spent[principal] = make(map[int64]run.Spent)
	}
	h.spent[principal][minute] = h.spent[principal][minute].Plus(cost)
	return ""
}

func (h *hourly) release(principal string, minute int64, cost run.Spent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.spent[principal][minute]; ok {
		h.spent[principal][minute] = run.Spent{Requests: s.Requests - cost.Requests, Tokens: s.Tokens - cost.Tokens}
	}
}

// total is what the principal spent in the hour up to the minute; what is older
// is forgotten.
func (h *hourly) total(principal string, minute int64) run.Spent {
	var sum run.Spent
	for m, s := range h.spent[principal] {
		if m <= minute-int64(time.Hour/time.Minute) {
			delete(h.spent[principal], m)
			continue
		}
		sum = sum.Plus(s)
	}
	return sum
}

func (h *hourly) sweep(minute int64) {
	if len(h.spent) < sweepAt {
		return
	}
	for principal := range h.spent {
		if h.total(principal, minute); len(h.spent[principal]) == 0 {
			delete(h.spent, principal)
		}
	}
}
