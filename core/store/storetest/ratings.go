package storetest

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
)

var ratingCases = map[string]func(*testing.T, Protocols){
	"ratings add up": ratingsAddUp,
	"an empty tier or rater keeps the stored one": ratingsLeave,
	"no concurrent rating is lost":                ratingsAtOnce,
	"ratings of unknown steps are ignored":        ratingsOfUnknown,
	"ratings survive new versions":                ratingsOutlive,
	"an unknown outcome is refused":               ratingRefused,
	"a cancelled rating changes nothing":          ratingCancelled,
	"steps of two spaces are rated apart":         ratingsApart,
}

func mustRate(t *testing.T, s library.Ratings, space string, ratings ...library.Rating) {
	t.Helper()
	if err := s.Rate(t.Context(), space, ratings); err != nil {
		t.Fatalf("Rate = %v, want nil", err)
	}
}

func wantQuality(t *testing.T, s library.Ratings, space string, want map[string]api.Quality, steps ...string) {
	t.Helper()
	wantRead(t, "Quality", want, cmpopts.EquateEmpty())(s.Quality(t.Context(), space, steps))
}

func ratingsAddUp(t *testing.T, s Protocols) {
	c := NewChain(mine, "Rated", "One", "Two", "Three")
	mustSave(t, s, c)
	one, two := c.Steps[0].UUID, c.Steps[1].UUID
	mustRate(t, s, mine,
		library.Rating{Step: one, Outcome: library.OutcomeStored, Score: 2, Tier: "standard", Rater: "mint", Context: "stored", At: epoch},
		library.Rating{Step: two, Outcome: library.OutcomeRetrieved, Bonus: 0.25})
	mustRate(t, s, mine,
		library.Rating{Step: one, Outcome: library.OutcomeSuccess, Bonus: 1, Score: 6, Tier: "excellent", Rater: "next", Context: "solved", At: epoch.Add(1)},
		library.Rating{Step: one, Outcome: library.OutcomeFailure, Bonus: -0.25, Score: 1, Tier: "basic", Rater: "next", Context: "failed", At: epoch.Add(2)},
		library.Rating{Step: two, Outcome: library.OutcomePartial, Times: 1 << 40, Bonus: 0.5},
		library.Rating{Step: two, Outcome: library.OutcomeStored, Times: 3})
	wantQuality(t, s, mine, map[string]api.Quality{
		one: {
			Score: 1, Tier: "basic", SuccessCount: 1, FailureCount: 1, QualityBonus: 0.75,
			LastRated: epoch.Add(2), LastRater: "next", UsageContext: "failed",
		},
		two: {RetrievalCount: 1, PartialCount: 1 << 40, QualityBonus: 0.75},
	}, one, two, c.Steps[2].UUID, "never heard of")
	wantQuality(t, s, mine, nil)
	mustRate(t, s, mine)
}

func ratingsLeave(t *testing.T, s Protocols) {
	c := NewChain(mine, "Rated", "One")
	mustSave(t, s, c)
	step := c.Steps[0].UUID
	mustRate(t, s, mine, library.Rating{Step: step, Outcome: library.OutcomeSuccess, Score: 6, Tier: "high", Rater: "next", Context: "first", At: epoch})
	mustRate(t, s, mine, library.Rating{Step: step, Outcome: library.OutcomeRetrieved, Score: 99, Context: "ignored", At: epoch.Add(1)})
	wantQuality(t, s, mine, map[string]api.Quality{step: {
		Score: 6, Tier: "high", SuccessCount: 1, RetrievalCount: 1, LastRated: epoch, LastRater: "next", UsageContext: "first",
	}}, step)
}

func ratingsAtOnce(t *testing.T, s Protocols) {
	c := NewChain(mine, "Busy", "One", "Two")
	mustSave(t, s, c)
	const raters, each = 8, 10
	var all sync.WaitGroup
	for range raters {
		all.Go(func() {
			for range each {
				if err := s.Rate(t.Context(), mine, []library.Rating{
					{Step: c.Steps[0].UUID, Outcome: library.OutcomeSuccess, Bonus: 0.5},
					{Step: c.Steps[1].UUID, Outcome: library.OutcomeRetrieved, Bonus: -0.25},
				}); err != nil {
					t.Errorf("Rate = %v, want nil", err)
				}
			}
		})
	}
	all.Wait()
	wantQuality(t, s, mine, map[string]api.Quality{
		c.Steps[0].UUID: {SuccessCount: raters * each, QualityBonus: 0.5 * raters * each},
		c.Steps[1].UUID: {RetrievalCount: raters * each, QualityBonus: -0.25 * raters * each},
	}, c.Steps[0].UUID, c.Steps[1].UUID)
}

func ratingsOfUnknown(t *testing.T, s Protocols) {
	c := NewChain(mine, "Known", "One")
	mustSave(t, s, c)
	mustRate(t, s, mine,
		library.Rating{Step: "never heard of", Outcome: library.OutcomeSuccess},
		library.Rating{Step: c.Steps[0].UUID, Outcome: library.OutcomeSuccess})
	wantQuality(t, s, mine, map[string]api.Quality{c.Steps[0].UUID: {SuccessCount: 1}}, c.Steps[0].UUID, "never heard of")
}

func ratingsOutlive(t *testing.T, s Protocols) {
	c := NewChain(mine, "Rated", "One", "Two")
	mustSave(t, s, c)
	one, two := c.Steps[0].UUID, c.Steps[1].UUID
	mustRate(t, s, mine,
		library.Rating{Step: one, Outcome: library.OutcomeSuccess, Bonus: 1},
		library.Rating{Step: two, Outcome: library.OutcomeFailure})
	changed := c
	changed.Steps = slices.Clone(c.Steps[:1])
	changed.Steps[0].Text = "## One\n\nDo it in another way."
	mustReplace(t, s, changed, 1)
	wantQuality(t, s, mine, map[string]api.Quality{one: {SuccessCount: 1, QualityBonus: 1}}, one)
	mustRate(t, s, mine, library.Rating{Step: one, Outcome: library.OutcomeSuccess, Bonus: 1})
	// A restored step keeps its ratings.
	mustReplace(t, s, c, 2)
	wantQuality(t, s, mine, map[string]api.Quality{
		one: {SuccessCount: 2, QualityBonus: 2}, two: {FailureCount: 1},
	}, one, two)
}

func ratingRefused(t *testing.T, s Protocols) {
	c := NewChain(mine, "Rated", "One")
	mustSave(t, s, c)
	err := s.Rate(t.Context(), mine, []library.Rating{
		{Step: c.Steps[0].UUID, Outcome: library.OutcomeSuccess}, {Step: c.Steps[0].UUID, Outcome: "splendid"},
	})
	wantCode(t, "Rate(splendid)", err, fault.InvalidArgument)
	wantQuality(t, s, mine, nil, c.Steps[0].UUID)
}

func ratingCancelled(t *testing.T, s Protocols) {
	c := NewChain(mine, "Rated", "One")
	mustSave(t, s, c)
	err := s.Rate(cancelled(t), mine, []library.Rating{{Step: c.Steps[0].UUID, Outcome: library.OutcomeSuccess}})
	wantCancelled(t, "Rate(cancelled)", err)
	wantQuality(t, s, mine, nil, c.Steps[0].UUID)
}

func ratingsApart(t *testing.T, s Protocols) {
	a, b := NewChain(mine, "Both", "One"), NewChain(theirs, "Both", "One")
	b.Steps[0].UUID = a.Steps[0].UUID
	mustSave(t, s, a, b)
	step := a.Steps[0].UUID
	mustRate(t, s, theirs, library.Rating{Step: step, Outcome: library.OutcomeFailure})
	wantQuality(t, s, mine, nil, step)
	mustRate(t, s, mine, library.Rating{Step: step, Outcome: library.OutcomeSuccess})
	wantQuality(t, s, theirs, map[string]api.Quality{step: {FailureCount: 1}}, step)
}
