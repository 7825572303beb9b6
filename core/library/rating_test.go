package library_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/library"
)

// rate rates a step as a run does.
func (w *world) rate(uri string, outcome library.Outcome, bonus float64, rater string) {
	w.t.Helper()
	chain, i, err := w.FindStep(w.t.Context(), w.caller, uri)
	if err != nil {
		w.t.Fatal(err)
	}
	w.Rate(library.StepRating{Space: chain.Space, Step: chain.Steps[i], Outcome: outcome, Bonus: bonus, Rater: rater})
}

func (w *world) quality(uri string) api.Quality {
	w.t.Helper()
	d, err := w.Dump(w.t.Context(), w.caller, api.DumpRequest{URI: uri})
	if err != nil || d.Quality == nil {
		w.t.Fatalf("Dump = %+v, %v, want a quality", d, err)
	}
	return *d.Quality
}

func TestStepsAreRatedInTheBackground(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	w.rate(uris[0], library.OutcomeFailure, -0.2, "kairos_next")
	w.rate(uris[0], library.OutcomeSuccess, 1, "kairos_next")
	w.rate(uris[1], library.OutcomeSuccess, 8, "model")
	w.find(api.SearchRequest{Query: "Three Steps"})
	if err := errors.Join(w.Close(), w.Close()); err != nil { // writes what waits
		t.Fatal(err)
	}
	first := w.quality(uris[0])
	if first.Score != 6 || first.Tier != "excellent" || first.SuccessCount != 1 || first.FailureCount != 1 || first.QualityBonus < 0.79 || first.QualityBonus > 0.81 || first.LastRater != "kairos_next" {
		t.Errorf("the solved step is rated %+v", first)
	}
	if second := w.quality(uris[1]); second.Score != 6 || second.QualityBonus != 8 || second.LastRater != "model" {
		t.Errorf("the attested step is rated %+v", second)
	}
	if got := first.RetrievalCount + w.quality(uris[1]).RetrievalCount + w.quality(uris[2]).RetrievalCount; got != 1 {
		t.Errorf("the search counted %d times, want once", got)
	}
	w.Library = w.another()
	w.mint(strings.Replace(threeSteps, "body two", "body 2", 1))
	w.rate(uris[0], library.OutcomeFailure, 0, "kairos_next")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := w.quality(uris[0]); got.Score != 1 || got.Tier != "basic" || got.FailureCount != 2 {
		t.Errorf("a step that failed last is rated %+v, want the score of a failure", got)
	}
	if got := w.quality(uris[1]); got.Score != 2 || got.Tier != "standard" || got.SuccessCount != 1 {
		t.Errorf("a step that was rewritten is rated %+v, want a new score and the old counts", got)
	}
	before := w.RatingsLost()
	w.mint(strings.Replace(threeSteps, "body", "another body", 3)) // rates what is stored, but the library is closed
	if got := w.RatingsLost() - before; got != 3 {
		t.Errorf("%d ratings are counted as lost, want those of three steps", got)
	}
}

func TestBuiltInsAreThereAndStay(t *testing.T) {
	w := newWorld(t, nil)
	const refine = "kairos://mem/00000000-0000-0000-0000-000000002002"
	if chain, i, err := w.FindStep(t.Context(), w.caller, refine); err != nil || i != 0 || len(chain.Steps) == 0 {
		t.Errorf("FindStep of a built-in = %+v, %d, %v", chain, i, err)
	}
	d, err := w.Delete(t.Context(), w.caller, api.DeleteRequest{URIs: []string{refine}})
	if err != nil || d.TotalFailed != 1 {
		t.Errorf("Delete of a built-in = %+v, %v, want it refused", d, err)
	}
	s, err := w.Spaces(t.Context(), w.caller, api.SpacesRequest{Titles: true})
	if err != nil || len(s.Spaces) != 2 || s.Spaces[1].Name != "Kairos app" || s.Spaces[1].ChainCount < 2 {
		t.Errorf("Spaces = %+v, %v, want Personal and Kairos app with two chains", s, err)
	}
}
