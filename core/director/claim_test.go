package director_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// acting is a challenge driver that changes the world once it has its evidence.
type acting struct {
	act func(nth int32)

	acts atomic.Int32
}

func (*acting) Validate(context.Context, driver.ValidateRequest) (driver.ValidateResult, error) {
	return driver.ValidateResult{}, nil
}

func (a *acting) Advance(_ context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	if _, ok := req.Answer("evidence"); !ok {
		return driver.Need(driver.Input{
			ID: "evidence", Kind: driver.KindEvidence, Type: "user_input", Person: true, Description: "say it",
			Schema: json.RawMessage(`{"type":"object"}`),
		}), nil
	}
	a.act(a.acts.Add(1))
	return driver.Accept(json.RawMessage(`{"done":true}`), nil), nil
}

// withActing puts a driver with effects in place and opens a run of it.
func (w *world) withActing(a *acting) (uri string, r *api.StepReply) {
	w.t.Helper()
	desc := descriptors["user_input"]
	desc.Effect = driver.EffectEffects
	w.setups.replace(w.setupOf(map[string]driver.Challenge{"user_input": a}, desc))
	uri = w.mint(stagedStep)[0]
	return uri, w.begin(uri)
}

func TestWhatChangedTheWorldIsNotRepeatedWhenItsSaveIsLost(t *testing.T) {
	w := newWorld(t, nil)
	elsewhere := w.another()
	var id string
	a := &acting{act: func(int32) {
		// Another server of the same database takes the run meanwhile.
		if _, err := elsewhere.Begin(context.Background(), w.caller, api.BeginRequest{SessionID: id}); err != nil {
			t.Error(err)
		}
	}}
	uri, r := w.withActing(a)
	id = r.RunID
	first, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uri, RunID: id, Solution: json.RawMessage(solve(r, `{"ok":true}`))})
	if err != nil || first.Reply == nil {
		t.Fatalf("Next = %+v, %v, want a reply", first, err)
	}
	got, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uri, RunID: id, Solution: json.RawMessage(placeholder(first.Reply))})
	if err != nil || got.Reply == nil || got.Reply.ErrorCode != "OUTCOME_UNKNOWN" {
		t.Errorf("reply = %+v, %v, want that nobody can tell what came of it", got.Reply, err)
	}
	if got := a.acts.Load(); got != 1 {
		t.Errorf("the driver acted %d times, want once", got)
	}
}
