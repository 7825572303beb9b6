package director_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
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

// eventually waits until a claim holds.
func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
		time.Sleep(time.Millisecond) // polling with a deadline
	}
}

type outcome struct {
	round director.Round
	err   error
}

// nexting submits in the background.
func (w *world) nexting(ctx context.Context, in api.NextRequest) <-chan outcome {
	done := make(chan outcome, 1)
	go func() {
		r, err := w.Next(ctx, w.caller, in)
		done <- outcome{r, err}
	}()
	return done
}

func TestTwoIdenticalCallsAtOnceActOnce(t *testing.T) {
	w := newWorld(t, nil)
	open := make(chan struct{})
	a := &acting{act: func(int32) { <-open }}
	uri, r := w.withActing(a)
	in := api.NextRequest{URI: uri, Solution: json.RawMessage(solve(r, `{"ok":true}`))}
	first, second := w.nexting(t.Context(), in), w.nexting(t.Context(), in)
	eventually(t, "both calls are there", func() bool { return w.Users(runOf(r)) == 2 || a.acts.Load() == 2 })
	close(open)
	one, two := <-first, <-second
	if one.err != nil || two.err != nil {
		t.Fatalf("errors %v and %v, want none", one.err, two.err)
	}
	if got := a.acts.Load(); got != 1 {
		t.Errorf("the driver acted %d times, want once", got)
	}
	if diff := cmp.Diff(one.round.Reply, two.round.Reply); diff != "" {
		t.Errorf("the two calls got different replies (-one +other):\n%s", diff)
	}
	if n := w.Claims(); n != 0 {
		t.Errorf("%d runs are still claimed after the calls", n)
	}
}

func TestACallThatWaitsForAnotherEndsWithItsContext(t *testing.T) {
	w := newWorld(t, nil)
	open := make(chan struct{})
	a := &acting{act: func(int32) { <-open }}
	uri, r := w.withActing(a)
	in := api.NextRequest{URI: uri, Solution: json.RawMessage(solve(r, `{"ok":true}`))}
	first := w.nexting(t.Context(), in)
	eventually(t, "the driver acts", func() bool { return a.acts.Load() == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	second := w.nexting(ctx, in)
	eventually(t, "the second call waits", func() bool { return w.Users(runOf(r)) == 2 })
	cancel()
	if got := <-second; !errors.Is(got.err, context.Canceled) {
		t.Errorf("the waiting call ended with %v, want its context's error", got.err)
	}
	close(open)
	if got := <-first; got.err != nil {
		t.Error(got.err)
	}
	if n := w.Claims(); n != 0 {
		t.Errorf("%d runs are still claimed after the calls", n)
	}
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
