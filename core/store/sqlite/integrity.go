package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
)

// maxDamages bounds the list of damages: the first ones show what happened.
const maxDamages = 20

// integrity reads the whole database and lists what is damaged: pages, indexes
// that do not agree with their tables, rows that break a constraint, and
// references to rows that do not exist. It changes nothing, also not the schema
// of an older version, and works beside a running server. A file that does not
// exist has no damage.
func (d *database) integrity(ctx context.Context) (damages []string, err error) {
	if _, err := os.Stat(d.path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	db, err := connect(d.path, nil, url.Values{"mode": {"ro"}, "_query_only": {"true"}})
	if err != nil {
		return nil, d.explain(err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	err = pragma(ctx, db, fmt.Sprintf(`PRAGMA integrity_check(%d)`, maxDamages), func(scan func(...any) error) error {
		var line string
		if err := scan(&line); err != nil || line == "ok" {
			return err
		}
		damages = append(damages, line)
		return nil
	})
	if err != nil {
		return damages, d.explain(err)
	}
	err = pragma(ctx, db, `PRAGMA foreign_key_check`, func(scan func(...any) error) error {
		var table, parent string
		var row, key any
		if err := scan(&table, &row, &parent, &key); err != nil {
			return err
		}
		if len(damages) < maxDamages {
			damages = append(damages, fmt.Sprintf("a row of table %s refers to a row of %s that does not exist", table, parent))
		}
		return nil
	})
	if err != nil {
		return damages, d.explain(err)
	}
	lost, err := lostSaves(ctx, db)
	if lost > 0 {
		damages = append(damages, fmt.Sprintf("%d rows of table saves refer to rows of runs that do not exist", lost))
	}
	return damages, d.explain(err)
}

// lostSaves counts the saves without a run. Older versions have no such table.
func lostSaves(ctx context.Context, db *sql.DB) (lost int, err error) {
	count := func(scan func(...any) error) error { return scan(&lost) }
	if err = pragma(ctx, db, `SELECT count(*) FROM sqlite_schema WHERE name = 'saves'`, count); err != nil || lost == 0 {
		return 0, err
	}
	err = pragma(ctx, db, `SELECT count(*) FROM saves WHERE id >> 20 NOT IN (SELECT number FROM runs)`, count)
	return lost, err
}

func pragma(ctx context.Context, db *sql.DB, query string, each eachRow) (err error) {
	stmt, err := db.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	return scanAll(ctx, stmt, nil, each)
}
