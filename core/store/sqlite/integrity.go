package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/store/pack"
	"github.com/kairos-mcp/kairos/core/store/record"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// maxDamages bounds the list of damages: the first ones show what happened.
const maxDamages = 20

// Integrity reads the whole database and lists what is damaged: pages, indexes
// that do not agree with their tables, rows that break a constraint, references to
// rows that do not exist, protocols that cannot be read, and runs whose proof chain is
// broken or whose history is not whole. It changes nothing, also not the schema of an older version, and works
// beside a running server. A file that does not exist has no damage.
func (s *Store) Integrity(ctx context.Context) (damages []string, err error) {
	return s.db.inspect(func(db *sql.DB) ([]string, error) {
		if damages, err := constraints(ctx, db); err != nil || len(damages) > 0 {
			return damages, err
		}
		if version, err := versionOf(ctx, db); err != nil || version != s.db.version() {
			return nil, err
		}
		lost, err := lostSaves(ctx, db)
		if err != nil {
			return nil, err
		}
		if lost > 0 {
			return []string{fmt.Sprintf("%d rows of table saves refer to rows of runs that do not exist", lost)}, nil
		}
		if damages, err := brokenProtocols(ctx, db); err != nil || len(damages) > 0 {
			return damages, err
		}
		return brokenRuns(ctx, db)
	})
}

// QuickCheck reads every page and lists those that are damaged, without comparing tables
// with their indexes and with each other as Integrity does. It changes nothing and works
// beside a running server.
func (s *Store) QuickCheck(ctx context.Context) (damages []string, err error) {
	return s.db.inspect(func(db *sql.DB) ([]string, error) {
		var lost *logError
		if err := checkLog(ctx, s.db.path, db); errors.As(err, &lost) {
			return []string{lost.Error()}, nil
		} else if err != nil {
			return nil, err
		}
		return pages(ctx, db, "quick_check")
	})
}

// inspect calls check with a connection that only reads, if the file exists.
func (d *database) inspect(check func(*sql.DB) ([]string, error)) (damages []string, err error) {
	if _, err := os.Stat(d.path); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	db, err := connect(d.path, nil, url.Values{"mode": {"ro"}, "_query_only": {"true"}})
	if err != nil {
		return nil, d.explain(err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	damages, err = check(db)
	return damages, d.explain(err)
}

// constraints lists damaged pages, rows that break a constraint, and references to rows
// that do not exist.
func constraints(ctx context.Context, db *sql.DB) (damages []string, err error) {
	if damages, err = pages(ctx, db, "integrity_check"); err != nil {
		return damages, err
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
	return damages, err
}

// pages lists what one of SQLite's own checks finds.
func pages(ctx context.Context, db *sql.DB, check string) (damages []string, err error) {
	err = pragma(ctx, db, fmt.Sprintf(`PRAGMA %s(%d)`, check, maxDamages), func(scan func(...any) error) error {
		var line string
		if err := scan(&line); err != nil || line == "ok" {
			return err
		}
		damages = append(damages, line)
		return nil
	})
	return damages, err
}

// lostSaves counts the saves without a run.
func lostSaves(ctx context.Context, db *sql.DB) (lost int, err error) {
	err = pragma(ctx, db, `SELECT count(*) FROM saves WHERE id >> 20 NOT IN (SELECT number FROM runs)`,
		func(scan func(...any) error) error { return scan(&lost) })
	return lost, err
}

func pragma(ctx context.Context, db *sql.DB, query string, each tables.Each) (err error) {
	stmt, err := db.PrepareContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stmt.Close()) }()
	return scanAll(ctx, stmt, nil, each)
}

// versionOf is storedVersion for a pool of connections.
func versionOf(ctx context.Context, db *sql.DB) (version int, err error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return 0, err
	}
	version, err = storedVersion(ctx, conn)
	return version, errors.Join(err, conn.Close())
}

// brokenProtocols reads every protocol. Searches leave out what cannot be read.
func brokenProtocols(ctx context.Context, db *sql.DB) (damages []string, err error) {
	err = pragma(ctx, db, `SELECT c.space, c.title, c.outline, t.texts FROM chains c LEFT JOIN texts t ON t.chain = c.key ORDER BY c.key`,
		func(scan func(...any) error) error {
			var space, title string
			var row tables.StoredChain
			if err := scan(&space, &title, &row.Outline, &row.Texts); err != nil {
				return err
			}
			if _, err := row.Read(pack.Unpack); err != nil && len(damages) < maxDamages {
				damages = append(damages, fmt.Sprintf("protocol %q of %s cannot be read: %v", title, space, err))
			}
			return nil
		})
	return damages, err
}

// brokenRuns reads every run with everything that happened in it, and checks its
// proof chain.
func brokenRuns(ctx context.Context, db *sql.DB) (damages []string, err error) {
	var last wholeHistory
	finish := func() {
		if err := last.check(); err != nil && len(damages) < maxDamages {
			damages = append(damages, fmt.Sprintf("run %s: %v", last.id, err))
		}
	}
	err = pragma(ctx, db, `SELECT r.id, r.document, s.id & (1 << 20) - 1, s.document FROM runs r
		LEFT JOIN saves s ON s.id > r.number << 20 AND s.id < (r.number + 1) << 20 ORDER BY r.number, s.id`, func(scan func(...any) error) error {
		var id string
		var head, packed []byte
		var revision sql.NullInt64
		if err := scan(&id, &head, &revision, &packed); err != nil {
			return err
		}
		if id != last.id {
			finish()
			last = wholeHistory{id: id, head: head}
		}
		last.add(revision.Int64, packed)
		return nil
	})
	finish()
	return damages, err
}

// wholeHistory is a run and what happened in it, as it is stored.
type wholeHistory struct {
	id       string
	head     []byte
	revision int64 // of the last save
	events   []run.Event
	err      error // why a save cannot be read
}

func (h *wholeHistory) add(revision int64, packed []byte) {
	var save record.Save
	if err := unpack(packed, &save); err != nil && h.err == nil {
		h.err = fmt.Errorf("what happened up to revision %d cannot be read: %w", revision, err)
	}
	h.revision, h.events = revision, append(h.events, save.Events...)
}

func (h *wholeHistory) check() error {
	if h.id == "" || h.err != nil {
		return h.err
	}
	var r run.Run
	if err := json.Unmarshal(h.head, &r); err != nil {
		return fmt.Errorf("it cannot be read: %w", err)
	}
	if r.Revision != h.revision {
		return fmt.Errorf("its revision is %d, and the last one that was saved is %d", r.Revision, h.revision)
	}
	return r.Recall(run.Run{}, h.events).Verify()
}
