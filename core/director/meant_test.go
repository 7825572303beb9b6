package director_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
)

func TestAReplyNamesFiveOfManyOpenRuns(t *testing.T) {
	for _, tc := range []struct {
		open int
		want string
	}{{3, "3 runs of"}, {12, "12 runs of"}, {20, "16 or more runs of"}} {
		t.Run(fmt.Sprint(tc.open), func(t *testing.T) {
			w := newWorld(t, nil)
			w.caller.Connection = ""
			uris := w.mint(threeSteps)
			var newest []string
			for range tc.open {
				newest = append([]string{w.begin(uris[0]).RunID}, newest...)
			}
			newest = newest[:min(5, tc.open)]
			_, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0]})
			refused(t, err, fault.AmbiguousRun)
			var f *fault.Error
			errors.As(err, &f)
			if got := f.Details["candidates"].([]string); !slices.Equal(got, newest) || !strings.HasPrefix(f.Message, tc.want) || len(f.Message) > 600 {
				t.Errorf("Next names %q: %s; want %q and %q", got, f.Message, newest, tc.want)
			}
			a := w.attest(api.AttestRequest{URI: uris[0], Outcome: "success"})
			reply, err := json.Marshal(a)
			if err != nil || a.ErrorCode != "AMBIGUOUS_RUN" || !slices.Equal(a.Candidates, newest) || !strings.Contains(a.Message, tc.want) || len(reply) > 4096 {
				t.Errorf("Attest = %s, want AMBIGUOUS_RUN with %q and %q", reply, newest, tc.want)
			}
		})
	}
}

func TestTheRunThatIsMeantIsFoundAmongManyOpenRuns(t *testing.T) {
	for _, connection := range []string{"c1", ""} {
		t.Run("connection "+connection, func(t *testing.T) {
			w := newWorld(t, nil)
			w.caller.Connection = connection
			uris := w.mint(threeSteps)
			begin := func(n int) {
				for range n {
					w.begin(uris[0])
				}
			}
			begin(20)
			done := w.finish(w.begin(uris[0]))
			begin(3) // none of these was continued, so the last kairos_next still is the one that completed the run
			if a := w.attest(api.AttestRequest{URI: uris[0], Outcome: "success"}); a.RunID != done.RunID || !a.Verified {
				t.Errorf("Attest = %+v, want run %s closed", a, done.RunID)
			}
			// What was continued last may be a run that is not looked at: nothing is closed.
			w.finish(w.begin(uris[0]))
			begin(20)
			if a := w.attest(api.AttestRequest{URI: uris[0], Outcome: "failure"}); a.RunID != "" || a.ErrorCode != "AMBIGUOUS_RUN" {
				t.Errorf("Attest = %+v, want AMBIGUOUS_RUN", a)
			}
		})
	}
}

func TestAConnectionContinuesItsNewestRunBesideTheMany(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	_, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0]})
	refused(t, err, fault.NoOpenRun)
	first, mine := w.begin(uris[0]), w.begin(uris[0])
	w.next(uris[0], solve(first, works)) // the newest is the one that was begun last
	w.caller.Connection = "c2"
	for range 20 {
		w.begin(uris[0])
	}
	w.caller.Connection = "c1"
	r, err := w.Next(t.Context(), w.caller, api.NextRequest{URI: uris[0], Solution: json.RawMessage(`{"type":"shell","shell":{"exit_code":0}}`)})
	if err != nil || r.Reply == nil || r.Reply.RunID != mine.RunID {
		t.Errorf("Next = %+v, %v, want run %s continued", r.Reply, err, mine.RunID)
	}
}
