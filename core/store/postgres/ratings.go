package postgres

import (
	"context"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// addRating adds in the database, so that concurrent ratings are not lost.
const addRating = `INSERT INTO ratings AS r (uuid, space, score, tier, retrieved, succeeded, partly, failed, bonus, rated, rater, context)
	SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12
	WHERE EXISTS (SELECT 1 FROM steps s WHERE s.space = $2 AND s.uuid = $1)
	ON CONFLICT (space, uuid) DO UPDATE SET
		score = CASE WHEN excluded.tier = '' THEN r.score ELSE excluded.score END,
		tier = CASE WHEN excluded.tier = '' THEN r.tier ELSE excluded.tier END,
		retrieved = r.retrieved + excluded.retrieved, succeeded = r.succeeded + excluded.succeeded,
		partly = r.partly + excluded.partly, failed = r.failed + excluded.failed, bonus = r.bonus + excluded.bonus,
		rated = CASE WHEN excluded.rater = '' THEN r.rated ELSE excluded.rated END,
		context = CASE WHEN excluded.rater = '' THEN r.context ELSE excluded.context END,
		rater = CASE WHEN excluded.rater = '' THEN r.rater ELSE excluded.rater END`

// Rate implements library.Ratings.
func (p *Protocols) Rate(ctx context.Context, space string, ratings []library.Rating) error {
	rows, err := record.Ratings(ratings)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return ctx.Err()
	}
	// In one order everywhere, so that two calls never wait for each other.
	slices.SortStableFunc(rows, func(a, b record.Rating) int { return strings.Compare(a.Step, b.Step) })
	return bounded(ctx, p.db, func(tx *transaction) error {
		for _, r := range rows {
			if err := tx.exec(addRating, r.Step, space, r.Score, r.Tier, r.Counts[0], r.Counts[1], r.Counts[2], r.Counts[3],
				r.Bonus, r.At, r.Rater, r.Context); err != nil {
				return err
			}
		}
		return mark(tx, false, chainsOfSteps, space, stepsOf(rows))
	})
}

func stepsOf(rows []record.Rating) []string {
	steps := make([]string, len(rows))
	for i, r := range rows {
		steps[i] = r.Step
	}
	return steps
}

// Quality implements library.Ratings.
func (p *Protocols) Quality(ctx context.Context, space string, stepUUIDs []string) (map[string]api.Quality, error) {
	known := make(map[string]api.Quality)
	err := p.db.rows(ctx, `SELECT uuid, score, tier, retrieved, succeeded, partly, failed, bonus, rated, rater, context
		FROM ratings WHERE space = $1 AND uuid = ANY($2)`,
		[]any{space, stepUUIDs}, func(scan func(...any) error) error {
			var uuid string
			var q api.Quality
			var rated int64
			if err := scan(&uuid, &q.Score, &q.Tier, &q.RetrievalCount, &q.SuccessCount, &q.PartialCount, &q.FailureCount,
				&q.QualityBonus, &rated, &q.LastRater, &q.UsageContext); err != nil {
				return err
			}
			q.LastRated = record.TimeOf(rated)
			known[uuid] = q
			return nil
		})
	return known, err
}
