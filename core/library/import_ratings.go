package library

import (
	"context"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// The limits of the claims of a record about a step.
const (
	maxClaimed      = 1e12 // ratings of one outcome
	maxClaimedText  = 500  // bytes of the last usage context
	maxClaimedNames = 200  // bytes of the last rater
)

// rateAgain adds the ratings that the record has and the store lacks. Repeating it
// adds nothing.
func (im importer) rateAgain(ctx context.Context, a arrival) error {
	if len(a.quality) == 0 || len(a.chains) != 1 || a.status == Failed || a.status == Skipped {
		return nil
	}
	c := a.chains[0]
	have, err := im.library.store.Ratings.Quality(ctx, c.Space, stepUUIDs(c))
	if err != nil {
		return err
	}
	var ratings []Rating
	for _, s := range c.Steps {
		if want, ok := a.quality[s.UUID]; ok {
			ratings = append(ratings, missingRatings(s.UUID, want, have[s.UUID])...)
		}
	}
	if len(ratings) == 0 {
		return nil
	}
	return im.library.store.Ratings.Rate(ctx, c.Space, ratings)
}

// missingRatings returns the ratings that turn have into want.
func missingRatings(step string, want, have api.Quality) []Rating {
	var out []Rating
	for _, n := range []struct {
		outcome    Outcome
		want, have int64
	}{
		{OutcomeRetrieved, want.RetrievalCount, have.RetrievalCount}, {OutcomeSuccess, want.SuccessCount, have.SuccessCount},
		{OutcomePartial, want.PartialCount, have.PartialCount}, {OutcomeFailure, want.FailureCount, have.FailureCount},
	} {
		if times := min(n.want, maxClaimed) - n.have; times > 0 {
			out = append(out, Rating{Step: step, Outcome: n.outcome, Times: times})
		}
	}
	last := Rating{
		Step: step, Outcome: OutcomeStored, Score: want.Score, Tier: plain.Clip(want.Tier, maxClaimedNames),
		Rater: plain.Clip(want.LastRater, maxClaimedNames), Context: plain.Clip(want.UsageContext, maxClaimedText), At: want.LastRated,
	}
	if len(out) > 0 || have == (api.Quality{}) {
		last.Bonus = want.QualityBonus - have.QualityBonus
		return append(out, last)
	}
	return nil
}
