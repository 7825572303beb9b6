package director_test

import (
	"encoding/json"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/run"
)

// A nonce of somebody else's run that this server knows, with the run_id of one's own run.
func TestACallThatNamesAnotherPersonsRunFirstCountsOnce(t *testing.T) {
	w := newWorld(t, nil)
	uri := w.mint(longProtocol(3))[0]
	w.caller.Groups = []string{w.caller.Space}
	theirs := w.begin(uri)
	me := w.caller
	me.Principal = "somebody-else"
	w.caller = me
	own := w.begin(uri)
	var counted []int
	for _, known := range []bool{false, true} {
		if known { // the process has just looked at the other run
			if _, err := w.Standing(t.Context(), run.ID(theirs.RunID)); err != nil {
				t.Fatal(err)
			}
		}
		round, err := w.Next(t.Context(), me, api.NextRequest{URI: uri, RunID: own.RunID, Solution: json.RawMessage(solve(theirs, `{"ok":true}`))})
		if err != nil {
			t.Fatal(err)
		}
		r := w.reply(round)
		counted = append(counted, *r.RetryCount)
	}
	if counted[0] != 1 || counted[1] != 2 {
		t.Errorf("failures after each call = %v, want [1 2]", counted)
	}
}
