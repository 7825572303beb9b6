package sqlite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// Limits say how much room the database needs. The zero value is the documented default.
type Limits struct {
	// MinFree is how many bytes must be free on the disk for CheckWrite to
	// succeed. The default is 64 MiB; a negative value means any number.
	MinFree int64
}

const defaultMinFree = 64 << 20

// CheckWrite reports why the next call may not be stored: it looks at the free
// space of the disk, checks that the files are still those that were opened, and, not
// more often than every ten seconds, does what a step needs: it reads what was stored last,
// without anything in memory, commits, and stores a run, which it takes back.
// After a failure the next call tries again.
func (s *Store) CheckWrite(ctx context.Context) error {
	d := s.db
	if f := d.file.Opened(); f != nil {
		if err := f.writer.files.check(); err != nil {
			return d.explain(err)
		}
	}
	free, err := freeSpace(filepath.Dir(d.path))
	least := cmp.Or(d.limits.MinFree, defaultMinFree)
	switch {
	case errors.Is(err, errors.ErrUnsupported):
	case err == nil && free < least:
		return fault.New(fault.StoreFailed, "database %s: its disk has %d MiB free, and at least %d MiB are required",
			d.path, free>>20, least>>20).WithRemedy("make room on that disk")
	}
	return d.probe.Try(func() error { return roundTrip(ctx, d) })
}

// roundTrip does what a step needs: it reads what was stored last, commits, and stores a
// run, which it takes back.
func roundTrip(ctx context.Context, d *database) error {
	err := d.Write(ctx, func(tx tables.Transaction) error {
		if err := probe(ctx, d); err != nil {
			return err
		}
		// This number is never read, but setting it is a normal commit.
		return tx.Exec(fmt.Sprintf(`PRAGMA application_id = %d`, applicationID))
	})
	if err != nil {
		return err
	}
	return rehearse(ctx, d)
}
