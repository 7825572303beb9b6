package postgres

import (
	"context"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// Rate implements library.Ratings.
func (p *Protocols) Rate(ctx context.Context, space string, ratings []library.Rating) error {
	rows, err := record.Ratings(ratings)
	if err != nil {
		return err
	}
	if len(rows) == 0 {
		return ctx.Err()
	}
	return bounded(ctx, p.db, func(tx tables.Transaction) error {
		if err := tables.AddRatings(tx, dialect, space, rows); err != nil {
			return err
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
