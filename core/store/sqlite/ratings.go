package sqlite

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
	return p.db.Write(ctx, func(tx tables.Transaction) error { return tables.AddRatings(tx, dialect, space, rows) })
}
