package director_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

const closed = `{"action":"cancel"}`

// whats are what happened in the run, by what the timeline calls it.
func (w *world) whats(r *api.StepReply) (out []string) {
	w.t.Helper()
	line, err := w.Timeline(w.t.Context(), w.caller, runOf(r))
	if err != nil {
		w.t.Fatal(err)
	}
	for _, m := range line.Moments {
		out = append(out, m.What)
	}
	return out
}

// TestAClosedDialogDecidesNothing: it is neither an approval nor a decline, is not
// counted, and the next call asks again.
func TestAClosedDialogDecidesNothing(t *testing.T) {
	for name, tc := range map[string]struct{ doc, answer string }{
		"an answer":     {askStep, `{"confirmation":"approved"}`},
		"an approval":   {approvedStep, `{"confirmation":"approved"}`},
		"a run's input": {"# In\n\n```json\n{\"inputs\":{\"type\":\"object\",\"properties\":{\"who\":{\"type\":\"string\"}},\"required\":[\"who\"]}}\n```\n\n## Ask\n\nask\n", `{"who":"Ann"}`},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, nil)
			w.caller.Client = driver.Client{ElicitationForm: true}
			uri := w.mint(tc.doc)[0]
			round := w.beginRound(uri, "")
			if round.Reply != nil {
				round = w.nextRound(uri, placeholder(round.Reply))
			}
			ask := w.ask(round, "elicitation/create")
			r := w.reply(w.answer(ask, closed))
			w.code(r, "WAITING_FOR_USER")
			if !strings.Contains(r.Message, "dismissed the question") || strings.Contains(r.Message, "declined (") || !strings.Contains(r.NextAction, "asked again") {
				t.Errorf("message = %q, next_action = %q, want that the question was dismissed and is asked again", r.Message, r.NextAction)
			}
			if *r.RetryCount != 0 || r.NextCall == nil || !r.MustObey {
				t.Errorf("reply = %+v, want no failure, and the call that asks again", r)
			}
			if s := w.state(ask.Run).Step; len(s.Declines) != 0 || s.DeclineCount != 0 {
				t.Errorf("declines = %v, %d, want none", s.Declines, s.DeclineCount)
			}
			if again := w.reply(w.answer(ask, closed)); again.Message != r.Message || w.state(ask.Run).Step.Question.Dismissed != 1 {
				t.Errorf("a repeat of the same reply says %q and counts %d", again.Message, w.state(ask.Run).Step.Question.Dismissed)
			}
			if whats := w.whats(r); !slices.Contains(whats, "dismissed") || slices.Contains(whats, "declined") {
				t.Errorf("timeline = %v, want dismissed and not declined", whats)
			}
			second := w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
			done := w.reply(w.answer(second, `{"action":"accept","content":`+tc.answer+`}`))
			w.code(done, "")
		})
	}
}

// TestAPersonWhoClosesTheDialogAgainAndAgainIsLeftAlone: for a while nobody asks
// them, and the question stays open.
func TestAPersonWhoClosesTheDialogAgainAndAgainIsLeftAlone(t *testing.T) {
	w := withPage(t, nil)
	w.caller.Client = driver.Client{ElicitationForm: true}
	uri := w.mint(gatedStep)[0]
	r := w.begin(uri)
	for range 3 {
		r = w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create"), closed))
		w.code(r, "WAITING_FOR_USER")
	}
	for range 5 {
		r = w.next(uri, placeholder(r))
		w.code(r, "WAITING_FOR_USER")
		if !strings.Contains(r.Message, "3 times in a row") || !r.MustObey {
			t.Errorf("message = %q, want how often the question was dismissed", r.Message)
		}
	}
	w.machine.Pass(time.Minute)
	ask := w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create")
	w.code(w.reply(w.answer(ask, `{"action":"accept","content":{"confirmation":"approved"}}`)), "")
}

// TestTheAgentMayPassOnWhatWasSaidInsteadOfTheDialog: people close dialogs and
// answer in the conversation. The record names it as the agent's report.
func TestTheAgentMayPassOnWhatWasSaidInsteadOfTheDialog(t *testing.T) {
	w := newWorld(t, nil)
	w.caller.Client = driver.Client{ElicitationForm: true}
	uri := w.mint(askStep)[0]
	r := w.begin(uri)
	r = w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(r)), "elicitation/create"), closed))
	done := w.next(uri, solve(r, `{"confirmation":"approved"}`))
	w.code(done, "")
	if len(done.Solved) != 1 || done.Solved[0].Provenance != driver.AgentReported {
		t.Errorf("solved = %+v, want the agent's report, named as one", done.Solved)
	}
}
