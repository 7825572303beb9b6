package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

const (
	// freeKept is how many free pages stay in the file for what is stored next.
	freeKept = 256
	// freeAtOnce is how many pages are returned in one transaction: other writers
	// wait for some milliseconds, because pages are moved.
	freeAtOnce = 128
)

// autoVacuum is the mode in which a file can shrink a part at a time. It is set before
// a file has its first table.
const autoVacuum = 2 // incremental

// allowShrinking sets the mode of a new file.
func allowShrinking(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA auto_vacuum = %d`, autoVacuum))
	return err
}

// Space implements archive.Files.
func (a *Archive) Space(ctx context.Context) (s archive.Space, err error) {
	var pages, free, size int64
	// One query, so that the numbers agree.
	err = a.DB.Row(ctx, `SELECT page_count, freelist_count, page_size
		FROM pragma_page_count, pragma_freelist_count, pragma_page_size`, nil, &pages, &free, &size)
	return archive.Space{Size: pages * size, Free: free * size}, err
}

// Reclaim implements archive.Files.
func (a *Archive) Reclaim(ctx context.Context) (more bool, err error) {
	returned := 0
	err = a.db.Write(ctx, func(tx tables.Transaction) error {
		var free int
		if _, err := tx.Row(`PRAGMA freelist_count`, nil, &free); err != nil {
			return err
		}
		more = free-freeKept > freeAtOnce
		if free <= 2*freeKept {
			return nil // not worth it
		}
		// It returns a row for each page.
		return tx.Rows(fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, min(free-freeKept, freeAtOnce)), nil,
			func(func(...any) error) error {
				returned++
				return nil
			})
	})
	return more && returned > 0, err
}
