package director_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/director/observe"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// A submission is refused, and in the same call the driver acts on evidence that came
// earlier. The refusal is stored with the intent, and then another server is first.
func TestARefusalThatIsStoredBeforeADriverActsIsNotCountedAgain(t *testing.T) {
	for name, end := range map[string]struct {
		act    advance
		solved int
		counts int
	}{
		"the step stays open": {breaks("its process died"), 0, 1},
		"the step is solved":  {accepts, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			heard := &audience{}
			w := newWorld(t, func(o *choices) { o.Observer = heard })
			elsewhere := w.another()
			decide := func(e Engine, id string) error {
				_, err := e.Decide(t.Context(), w.caller, director.DecideInput{Run: run.ID(id), By: "alice", Reason: "the bank has nothing of it"})
				return err
			}
			var id string
			meanwhile := func(driver.AdvanceRequest) (driver.AdvanceResult, error) {
				return driver.Accept(json.RawMessage(`{"done":true}`), nil), decide(elsewhere, id)
			}
			_, uri, r := w.withScript(driver.EffectEffects, nil, breaks("its process died"), meanwhile, end.act)
			id = r.RunID
			w.code(w.next(uri, solve(r, `{"ok":true}`)), "OUTCOME_UNKNOWN")
			if err := decide(w.Engine, id); err != nil {
				t.Fatal(err)
			}

			got := w.next(uri, fmt.Sprintf(`{"type":"user_input","nonce":%q,"user_input":{"ok":true}}`, r.Challenge.Nonce))
			w.code(got, "MISSING_FIELD")
			if len(got.Solved) != end.solved || *got.RetryCount != end.counts {
				t.Errorf("solved %+v with retry_count %d, want %d steps and %d", got.Solved, *got.RetryCount, end.solved, end.counts)
			}
			if n := refusals(heard.routes); n != 1 {
				t.Errorf("the observer heard of %d refusals, want one", n)
			}
		})
	}
}

func refusals(routes []observe.Route) (n int) {
	for _, r := range routes {
		if r.Outcome == observe.Refused {
			n++
		}
	}
	return n
}
