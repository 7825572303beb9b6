package sqlite

import (
	"context"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// addRating adds in the database, so that concurrent ratings are not lost.
const addRating = `INSERT INTO ratings (uuid, space, score, tier, retrieved, succeeded, partly, failed, bonus, rated, rater, context)
	SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12
	WHERE EXISTS (SELECT 1 FROM steps s JOIN chains c ON c.key = s.chain WHERE s.uuid = step_key(?1) AND c.space = ?2)
	ON CONFLICT (uuid, space) DO UPDATE SET
		score = iif(excluded.tier = '', score, excluded.score), tier = iif(excluded.tier = '', tier, excluded.tier),
		retrieved = retrieved + excluded.retrieved, succeeded = succeeded + excluded.succeeded,
		partly = partly + excluded.partly, failed = failed + excluded.failed, bonus = bonus + excluded.bonus,
		rated = iif(excluded.rater = '', rated, excluded.rated), rater = iif(excluded.rater = '', rater, excluded.rater),
		context = iif(excluded.rater = '', context, excluded.context)`

// Rate implements library.Ratings.
func (p *Protocols) Rate(ctx context.Context, space string, ratings []library.Rating) error {
	rows, err := record.Ratings(ratings)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return ctx.Err()
	}
	return p.db.write(ctx, func(tx *transaction) error {
		for _, r := range rows {
			if err := tx.exec(addRating, r.Step, space, r.Score, r.Tier, r.Counts[0], r.Counts[1], r.Counts[2], r.Counts[3],
				r.Bonus, r.At, r.Rater, r.Context); err != nil {
				return err
			}
		}
		return nil
	})
}

// Quality implements library.Ratings.
func (p *Protocols) Quality(ctx context.Context, space string, stepUUIDs []string) (map[string]api.Quality, error) {
	known := make(map[string]api.Quality)
	err := p.db.rows(ctx, `SELECT r.uuid, r.score, r.tier, r.retrieved, r.succeeded, r.partly, r.failed, r.bonus, r.rated, r.rater, r.context
		FROM ratings r WHERE r.space = ? AND r.uuid IN (SELECT value FROM json_each(?))`,
		[]any{space, list(stepUUIDs)}, func(scan func(...any) error) error {
			var uuid string
			var q api.Quality
			var rated int64
			if err := scan(&uuid, &q.Score, &q.Tier, &q.RetrievalCount, &q.SuccessCount, &q.PartialCount, &q.FailureCount,
				&q.QualityBonus, &rated, &q.LastRater, &q.UsageContext); err != nil {
				return err
			}
			q.LastRated = timeOf(rated)
			known[uuid] = q
			return nil
		})
	return known, err
}
