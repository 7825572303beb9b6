package director_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
)

func TestOldURIsPointToTheirProtocol(t *testing.T) {
	w := newWorld(t, nil)
	old := w.mint("# Tidy up\n\n## A\n\na\n\n## B\n\nb\n\n## C\n\nc\n")
	now := w.mint("# Tidy up\n\n## A\n\na\n\n## C\n\nc\n")
	check := func(code fault.Code, message, action string) {
		t.Helper()
		for call, ways := range reaches {
			reach, ok := ways["former step"]
			if !ok || call == "History" || call == "Version" || call == "Restore" {
				continue
			}
			reply, err := reach(w, w.caller, probe{Gone: old[1]})
			said := learned(t, reply, err)
			if err == nil && call != "Update" || err != nil && fault.CodeOf(err) != code ||
				!strings.Contains(said, message) || !strings.Contains(said, action) {
				t.Errorf("%s of a former step says\n%s\nwant %s, %q and %q", call, said, code, message, action)
			}
		}
		if d, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: old[1:2]}); err != nil || d.TotalFailed != 1 || !strings.Contains(d.Results[0].Message, action) {
			t.Errorf("Delete of a former step = %+v, %v, want an error that names %q", d, err, action)
		}
	}
	check(fault.NotFound, "Tidy up", now[0])
	if _, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: now[:1]}); err != nil {
		t.Fatal(err)
	}
	check(fault.NotFound, "is deleted", "kairos restore "+protocol.ChainID("Tidy up"))
}

func TestARunContinuesUnderTheURIsItBeganWith(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.begin(uris[0])
	r = w.next(uris[0], solve(r, `{"ok":true}`))
	w.mint("# Three Steps\n\n## Other\n\nx\n")
	w.at(w.next(uris[1], `{"type":"shell"}`), uris[1]) // without a nonce the run is found by its protocol
	last := w.next(uris[1], solve(r, works))
	w.at(last, uris[2])
	contains(t, last.CurrentStep.Content, "body three") // the step as it was when the run began
	if _, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: uris[:1]}); err != nil {
		t.Fatal(err)
	}
	a, err := w.Attest(t.Context(), w.caller, api.AttestRequest{URI: uris[2], Outcome: "failure", Message: "m"})
	if err != nil || a.RunID != r.RunID {
		t.Errorf("Attest = %+v, %v, want the run %s closed", a, err, r.RunID)
	}
}
