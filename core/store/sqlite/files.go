package sqlite

import (
	"context"
	"database/sql"
	"fmt"

	"github.com/kairos-mcp/kairos/core/archive"
)

const (
	// freeKept is how many free pages stay in the file for what is stored next.
	freeKept = 256
	// freeAtOnce is how many pages are returned in one transaction: other writers
	// wait for some milliseconds, because pages are moved.
	freeAtOnce = 128
)

// autoVacuum is the mode in which a file can shrink a part at a time. It takes
// effect when a file is made or rebuilt.
const autoVacuum = 2 // incremental

// allowShrinking sets the mode of a new file, or that of an old one once it is
// rebuilt. Setting it in a file that has it would be a write.
func allowShrinking(ctx context.Context, conn *sql.Conn) error {
	var mode int
	if err := conn.QueryRowContext(ctx, `PRAGMA auto_vacuum`).Scan(&mode); err != nil || mode == autoVacuum {
		return err
	}
	_, err := conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA auto_vacuum = %d`, autoVacuum))
	return err
}

// Space implements archive.Files.
func (a *Archive) Space(ctx context.Context) (s archive.Space, err error) {
	var mode, pages, free, size int64
	// One query, so that the numbers agree.
	err = a.db.row(ctx, `SELECT auto_vacuum, page_count, freelist_count, page_size
		FROM pragma_auto_vacuum, pragma_page_count, pragma_freelist_count, pragma_page_size`,
		nil, &mode, &pages, &free, &size)
	return archive.Space{Size: pages * size, Free: free * size, Fixed: mode != autoVacuum}, err
}

// Reclaim implements archive.Files.
func (a *Archive) Reclaim(ctx context.Context) (more bool, err error) {
	space, err := a.Space(ctx)
	if err != nil || space.Fixed {
		return false, err
	}
	returned := 0
	err = a.db.write(ctx, func(tx *transaction) error {
		var free int
		if _, err := tx.row(`PRAGMA freelist_count`, nil, &free); err != nil {
			return err
		}
		more = free-freeKept > freeAtOnce
		if free <= 2*freeKept {
			return nil // not worth it
		}
		// It returns a row for each page.
		return tx.rows(fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, min(free-freeKept, freeAtOnce)), nil,
			func(func(...any) error) error {
				returned++
				return nil
			})
	})
	return more && returned > 0, err
}

// Rebuild implements archive.Files.
func (a *Archive) Rebuild(ctx context.Context) error {
	opened, err := a.db.use(ctx)
	if err != nil {
		return err
	}
	return a.db.explain(opened.writer.alone(ctx, func(tx *transaction) error { return tx.exec(`VACUUM`) }))
}
