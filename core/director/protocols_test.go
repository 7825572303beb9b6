package director_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
)

func TestOldURIsPointToTheirProtocol(t *testing.T) {
	w := newWorld(t, nil)
	old := w.mint(doc("Tidy up", "A: a", "B: b", "C: c"))
	now := w.mint(doc("Tidy up", "A: a", "C: c"))
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
	w.mint(doc("Three Steps", "Other: x"))
	w.at(w.next(uris[1], `{"type":"shell"}`), uris[1]) // without a nonce the run is found by its protocol
	w.at(w.next(uris[1], solve(r, `{"ok":true}`)), uris[2])
	if _, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: uris[:1]}); err != nil {
		t.Fatal(err)
	}
	a, err := w.Attest(t.Context(), w.caller, api.AttestRequest{URI: uris[2], Outcome: "failure", Message: "m"})
	if err != nil || a.RunID != r.RunID {
		t.Errorf("Attest = %+v, %v, want the run %s closed", a, err, r.RunID)
	}
}

func TestStepsAreRatedInTheBackground(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.begin(uris[0])
	r = w.next(uris[0], solve(r, `{"ok":false,"x":1}`))
	w.finish(w.next(uris[0], solve(r, `{"ok":true}`)))
	if _, err := w.Attest(t.Context(), w.caller, api.AttestRequest{URI: uris[1], Outcome: "success", Message: "good", QualityBonus: 2, ModelID: "model"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Search(t.Context(), w.caller, api.SearchRequest{Query: "Three Steps"}); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), w.Close()); err != nil { // writes what waits
		t.Fatal(err)
	}
	quality := func(uri string) api.Quality {
		t.Helper()
		d, err := w.Dump(t.Context(), w.caller, api.DumpRequest{URI: uri})
		if err != nil || d.Quality == nil {
			t.Fatalf("Dump = %+v, %v, want a quality", d, err)
		}
		return *d.Quality
	}
	first := quality(uris[0])
	if first.Score != 6 || first.Tier != "excellent" || first.SuccessCount != 1 || first.FailureCount != 1 || first.QualityBonus < 0.79 || first.QualityBonus > 0.81 || first.LastRater != "kairos_next" {
		t.Errorf("the solved step is rated %+v", first)
	}
	if second := quality(uris[1]); second.Score != 6 || second.QualityBonus != 1+7 || second.LastRater != "model" || second.UsageContext != "good" {
		t.Errorf("the attested step is rated %+v", second)
	}
	if third := quality(uris[2]); third.Score != 6 || third.QualityBonus != 1 || third.LastRater != "kairos_next" {
		t.Errorf("the step that was solved and not attested is rated %+v", third)
	}
	if got := first.RetrievalCount + quality(uris[1]).RetrievalCount + quality(uris[2]).RetrievalCount; got != 1 {
		t.Errorf("the search counted %d times, want once", got)
	}
	w.Engine = w.another()
	w.mint(strings.Replace(threeSteps, "body two", "body 2", 1))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := quality(uris[0]); got.Score != 6 {
		t.Errorf("a step that stayed as it was lost its score: %+v", got)
	}
	if got := quality(uris[1]); got.Score != 2 || got.Tier != "standard" || got.SuccessCount != 2 {
		t.Errorf("a step that was rewritten is rated %+v, want a new score and the old counts", got)
	}
	w.Engine = w.another()
	w.next(uris[0], solve(w.begin(uris[0]), `{"ok":false}`))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := quality(uris[0]); got.Score != 1 || got.Tier != "basic" || got.FailureCount != 2 {
		t.Errorf("a step that failed last is rated %+v, want the score of a failure", got)
	}
}

func TestLostRatingsAreCountedAndCostNothing(t *testing.T) {
	w := newWorld(t, nil)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	uris := w.mint(threeSteps)
	w.next(uris[0], solve(w.begin(uris[0]), `{"ok":true}`))
	if got := w.RatingsLost(); got != 4 {
		t.Errorf("%d ratings are counted as lost, want 4: three steps stored, one solved", got)
	}
}
func doc(title string, steps ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n", title)
	for _, s := range steps {
		heading, body, _ := strings.Cut(s, ": ")
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", heading, body)
	}
	return b.String()
}
