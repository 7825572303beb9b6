package director_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/run"
)

func TestAnEarlierSessionsOpenRunIsFound(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	w.caller.Connection = "first"
	older := w.begin(uris[0])
	newer := w.next(uris[0], solve(w.begin(uris[0]), works))
	w.attest(api.AttestRequest{URI: uris[0], Outcome: "failure", RunID: w.begin(uris[0]).RunID})
	finds := func(c access.Caller, want *director.Unfinished) {
		t.Helper()
		got, err := w.Unfinished(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Unfinished of %s on %q (-want +got):\n%s", c.Principal, c.Connection, diff)
		}
	}
	of := func(r *api.StepReply) *director.Unfinished {
		return &director.Unfinished{Run: run.ID(r.RunID), Title: "Three Steps", URI: uris[0], Step: r.StepIndex, Steps: 3}
	}
	finds(w.caller, nil) // they are this session's own
	other, later := w.caller, w.caller
	other.Principal = "other"
	finds(other, nil)
	for _, connection := range []string{"second", ""} {
		later.Connection = connection
		finds(later, of(newer))
	}
	later.Connection = "second"
	if _, err := w.Begin(t.Context(), later, api.BeginRequest{URI: uris[0], SessionID: newer.RunID}); err != nil {
		t.Fatal(err)
	}
	finds(later, of(older))
	w.machine.Pass(25 * time.Hour) // the older one never advanced: its time has passed
	finds(later, nil)
	finds(w.caller, of(newer)) // resumed elsewhere
}
