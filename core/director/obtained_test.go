package director_test

import (
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// TestAnAnswerHasTheTimeAtWhichItWasObtained: a driver records it as proof, and an agent
// cannot set it.
func TestAnAnswerHasTheTimeAtWhichItWasObtained(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(gatedCall("Gated", "go"))[0]
	w.caller.Client = formClient
	r := w.reply(w.answer(w.ask(w.nextRound(uri, placeholder(w.begin(uri))), "elicitation/create"), yes))
	w.code(w.next(uri, solve(r, `{"ok":true}`)), "")
	events, err := w.store.Events(t.Context(), run.ID(r.RunID))
	if err != nil {
		t.Fatal(err)
	}
	seen := map[driver.Provenance]bool{}
	for _, ev := range events {
		if ev.Answer == nil {
			continue
		}
		seen[ev.Answer.Provenance] = true
		want := ""
		if ev.Answer.Provenance == driver.ClientAttested {
			want = ev.At.UTC().Format(time.RFC3339)
		}
		if ev.Answer.ObtainedAt != want {
			t.Errorf("the answer %s by %s was obtained at %q, want %q", ev.Answer.InputID, ev.Answer.Provenance, ev.Answer.ObtainedAt, want)
		}
	}
	if !seen[driver.ClientAttested] || !seen[driver.AgentReported] {
		t.Errorf("answers by %v, want one of a person and one of the agent", seen)
	}
}
