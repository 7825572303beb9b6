// Package budget bounds what language models are asked, for one run and for a caller
// within an hour.
package budget

import (
	"fmt"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
)

// Limits bound what language models are asked, by drivers that have the
// feature driver.FeatureModel.
type Limits struct {
	// PerRun is for one run, from its beginning to its end.
	PerRun Limit
	// PerPrincipalHour is for all runs of a principal within any hour. It is
	// counted by this process alone and forgotten when it ends.
	PerPrincipalHour Limit
}

// Limit is a number of requests and of tokens. Zero: as many as you like.
// Tokens are those that the model was granted for its answer: MCP clients do
// not say how many it used.
type Limit struct {
	Requests, Tokens int
}

// Exceeded says how much the budget is and why it does not allow one more
// request, or nothing.
func (b Limit) Exceeded(spent, cost run.Spent) string {
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

// Hourly counts what each principal spent in the last hour, minute by minute. The
// zero value is ready; it is safe for concurrent use.
type Hourly struct {
	mu    sync.Mutex // guards the field below
	spent map[string]map[int64]run.Spent
}

// sweepAt is the number of principals at which those who spent nothing lately
// are forgotten.
const sweepAt = 1024

// Reserve adds the cost, unless it would exceed the budget, of which it then
// says the part.
func (h *Hourly) Reserve(principal string, minute int64, cost run.Spent, b Limit) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if b == (Limit{}) {
		return ""
	}
	if h.spent == nil {
		h.spent = make(map[string]map[int64]run.Spent)
	}
	if over := b.Exceeded(h.total(principal, minute), cost); over != "" {
		return over
	}
	if h.spent[principal] == nil {
		h.sweep(minute)
		h.spent[principal] = make(map[int64]run.Spent)
	}
	h.spent[principal][minute] = h.spent[principal][minute].Plus(cost)
	return ""
}

// Release takes back what was reserved.
func (h *Hourly) Release(principal string, minute int64, cost run.Spent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s, ok := h.spent[principal][minute]; ok {
		h.spent[principal][minute] = run.Spent{Requests: s.Requests - cost.Requests, Tokens: s.Tokens - cost.Tokens}
	}
}

// total is what the principal spent in the hour up to the minute; what is older
// is forgotten.
func (h *Hourly) total(principal string, minute int64) run.Spent {
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

func (h *Hourly) sweep(minute int64) {
	if len(h.spent) < sweepAt {
		return
	}
	for principal := range h.spent {
		if h.total(principal, minute); len(h.spent[principal]) == 0 {
			delete(h.spent, principal)
		}
	}
}
