package director_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// sampledSteps is a protocol whose steps are all given to the client's model.
func sampledSteps(n int) string {
	var b strings.Builder
	b.WriteString("# Sampled\n")
	for i := range n {
		fmt.Fprintf(&b, "\n## Step %d\n\nbody\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"mcp\":{},\"sampling\":{\"max_tokens\":100}}}\n```\n", i+1)
	}
	return b.String()
}

const sampled = `{"action":"accept","content":{"ok":true}}`

func budgeted(b director.Budgets) func(*choices) {
	return func(c *choices) { c.Budgets = b }
}

func TestABudgetOfARunClosesTheRouteAndSaysSo(t *testing.T) {
	for name, b := range map[string]director.Budgets{
		"requests of the run":       {PerRun: director.Budget{Requests: 2}},
		"tokens of the run":         {PerRun: director.Budget{Tokens: 299}},
		"requests of the principal": {PerPrincipalHour: director.Budget{Requests: 2}},
		"tokens of the principal":   {PerPrincipalHour: director.Budget{Tokens: 299}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, budgeted(b))
			uris := w.mint(sampledSteps(3))
			w.caller.Client = driver.Client{Sampling: true}
			r := w.reply(w.answer(w.ask(w.beginRound(uris[0], ""), "sampling/createMessage"), sampled))
			r = w.reply(w.answer(w.ask(w.nextRound(uris[1], placeholder(r)), "sampling/createMessage"), sampled))
			w.at(r, uris[2])
			if r.ErrorCode != "" || r.NextCall == nil {
				t.Errorf("the step behind an accepted one = %q with next_call %v, want no error", r.ErrorCode, r.NextCall)
			}
			r = w.next(uris[2], placeholder(r))
			w.code(r, "SAMPLING_BUDGET_EXCEEDED")
			if !r.MustObey || !strings.Contains(r.Message, "budget for language models") {
				t.Errorf("reply = %+v, want the agent to be told of the budget", r)
			}
			w.code(w.next(uris[2], solve(r, `{"ok":true}`)), "")
			stored, err := w.stored(runOf(r))
			if err != nil || stored.Spent != (run.Spent{Requests: 2, Tokens: 200}) {
				t.Errorf("spent = %+v, %v, want 2 requests of 100 tokens", stored.Spent, err)
			}
		})
	}
}

func TestARequestThatCameToNothingCountsIfItWasMade(t *testing.T) {
	for knob, spent := range map[string]run.Spent{
		"asked in vain": {Requests: 1, Tokens: 100},
		"not asked":     {},
	} {
		t.Run(knob, func(t *testing.T) {
			w := newWorld(t, budgeted(director.Budgets{PerPrincipalHour: director.Budget{Requests: 1}}))
			uri := w.mint(sampledSteps(1))[0]
			w.caller.Client = driver.Client{Sampling: true}
			w.drivers.set(knob, true)
			r := w.begin(uri)
			stored, err := w.stored(runOf(r))
			if err != nil || stored.Spent != spent {
				t.Errorf("spent = %+v, %v, want %+v", stored.Spent, err, spent)
			}
			w.drivers.set(knob, false)
			round := w.nextRound(uri, placeholder(r))
			if left := round.Ask != nil; left != (spent == run.Spent{}) {
				t.Errorf("asked = %v with %+v of one request spent", left, spent)
			}
		})
	}
}

// TestAReplySaysWhyTheModelDidNotAnswer: the one that first shows the step, and
// a later one as long as the model is not asked again.
func TestAReplySaysWhyTheModelDidNotAnswer(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(sampledStep)[0]
	w.caller.Client = driver.Client{Sampling: true}
	w.drivers.set("asked in vain", true)
	r := w.begin(uri)
	w.code(r, "")
	if !strings.Contains(r.Message, "Tried before: sampling: unavailable (the endpoint is busy)") {
		t.Errorf("message = %q, want why the model did not answer", r.Message)
	}
	w.drivers.set("asked in vain", false)
	ask := w.ask(w.nextRound(uri, placeholder(r)), "sampling/createMessage")
	r = w.reply(w.answer(w.ask(w.answer(ask, `"prose"`), "sampling/createMessage"), `"prose"`))
	w.code(r, "SAMPLING_FAILED")
	r = w.next(uri, placeholder(r))
	w.code(r, "MISSING_FIELD")
	if !strings.Contains(r.Message, "Tried before: sampling: invalid (") || strings.Contains(r.Message, "busy") {
		t.Errorf("message = %q, want the model that is not asked again, and what was wrong with its answer", r.Message)
	}
}

func TestARepairCountsAgainstTheBudget(t *testing.T) {
	w := newWorld(t, budgeted(director.Budgets{PerRun: director.Budget{Requests: 1}}))
	uri := w.mint(sampledStep)[0]
	w.caller.Client = driver.Client{Sampling: true}
	r := w.reply(w.answer(w.ask(w.beginRound(uri, ""), "sampling/createMessage"), `"prose"`))
	w.code(r, "SAMPLING_BUDGET_EXCEEDED")
	line, err := w.Timeline(t.Context(), w.caller, runOf(r))
	if err != nil {
		t.Fatal(err)
	}
	var told bool
	for _, m := range line.Moments {
		told = told || strings.HasPrefix(m.Verdict, string(decision.Exhausted)+": ")
	}
	if !told {
		t.Errorf("moments = %+v, want one that tells of the budget", line.Moments)
	}
}

func TestAnHourLaterThePrincipalMayAskAgain(t *testing.T) {
	w := newWorld(t, budgeted(director.Budgets{PerPrincipalHour: director.Budget{Requests: 1}}))
	uri := w.mint(sampledStep)[0]
	w.caller.Client = driver.Client{Sampling: true}
	w.ask(w.beginRound(uri, ""), "sampling/createMessage")
	r := w.begin(uri) // another run of the same principal
	if !strings.Contains(r.Message, "in an hour") {
		t.Errorf("message = %q, want the reason why no model was asked", r.Message)
	}
	w.caller.Principal = "somebody else"
	w.ask(w.beginRound(uri, ""), "sampling/createMessage")
	w.caller.Principal = "me"
	w.machine.Pass(59 * time.Minute)
	w.code(w.next(uri, placeholder(r)), "SAMPLING_BUDGET_EXCEEDED")
	w.machine.Pass(2 * time.Minute)
	w.ask(w.nextRound(uri, placeholder(r)), "sampling/createMessage")
}

func TestAReviewThatABudgetPreventsApprovesNothing(t *testing.T) {
	w := newWorld(t, budgeted(director.Budgets{PerRun: director.Budget{Tokens: 1}}))
	uri := w.mint(strings.Replace(sampledStep, `"type":`, `"approval_mode":"user","type":`, 1))[0]
	w.caller.Client = driver.Client{Sampling: true}
	w.code(w.begin(uri), "APPROVAL_UNAVAILABLE")
}
