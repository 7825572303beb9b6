package tables

import (
	"context"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// addRating adds in the database, so that concurrent ratings are not lost.
const addRating = `INSERT INTO ratings AS r (uuid, space, score, tier, retrieved, succeeded, partly, failed, bonus, rated, rater, context)
	SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12 WHERE EXISTS (`

const toRating = `) ON CONFLICT (space, uuid) DO UPDATE SET
	score = CASE WHEN excluded.tier = '' THEN r.score ELSE excluded.score END,
	tier = CASE WHEN excluded.tier = '' THEN r.tier ELSE excluded.tier END,
	retrieved = r.retrieved + excluded.retrieved, succeeded = r.succeeded + excluded.succeeded,
	partly = r.partly + excluded.partly, failed = r.failed + excluded.failed, bonus = r.bonus + excluded.bonus,
	rated = CASE WHEN excluded.rater = '' THEN r.rated ELSE excluded.rated END,
	context = CASE WHEN excluded.rater = '' THEN r.context ELSE excluded.context END,
	rater = CASE WHEN excluded.rater = '' THEN r.rater ELSE excluded.rater END`

// AddRatings adds ratings of steps of a space. Those of unknown steps are left out.
func AddRatings(tx Transaction, d *Dialect, space string, rows []record.Rating) error {
	for _, r := range rows {
		if err := tx.Exec(addRating+d.HasStep+toRating, r.Step, space, r.Score, r.Tier, r.Counts[0], r.Counts[1], r.Counts[2], r.Counts[3],
			r.Bonus, r.At, r.Rater, r.Context); err != nil {
			return err
		}
	}
	return nil
}

// Quality implements library.Ratings.
func (p *Protocols) Quality(ctx context.Context, space string, stepUUIDs []string) (map[string]api.Quality, error) {
	known := make(map[string]api.Quality)
	err := p.db.Rows(ctx, `SELECT uuid, score, tier, retrieved, succeeded, partly, failed, bonus, rated, rater, context
		FROM ratings WHERE space = $1 AND uuid `+p.db.In(2), []any{space, p.db.List(stepUUIDs)}, func(scan func(...any) error) error {
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
