package sqlite

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/kairos-mcp/kairos/core/store/tables"
)

// newest are queries for what was stored last in the tables that a step needs. What was
// stored last is most likely in the log.
var newest = []string{
	`SELECT document FROM runs ORDER BY number DESC LIMIT 1`,
	`SELECT number FROM runs WHERE id = (SELECT id FROM runs ORDER BY number DESC LIMIT 1)`,
	`SELECT document FROM saves ORDER BY id DESC LIMIT 1`,
	`SELECT document FROM pins WHERE digest = (SELECT pin FROM runs ORDER BY number DESC LIMIT 1)`,
	`SELECT outline FROM chains ORDER BY key DESC LIMIT 1`,
	`SELECT texts FROM texts ORDER BY chain DESC LIMIT 1`,
	`SELECT passage FROM steps WHERE chain = (SELECT max(key) FROM chains)`,
}

// errRehearsed rolls a rehearsal back.
var errRehearsed = errors.New("rehearsed")

// rehearse stores a run and takes it back.
func rehearse(ctx context.Context, d *database) error {
	at := time.Now().UnixNano()
	err := d.Write(ctx, func(tx tables.Transaction) error {
		if err := tx.Exec(`INSERT INTO pins (digest, space, document) VALUES ('readiness', '', x'')`); err != nil {
			return err
		}
		if err := tx.Exec(`INSERT INTO runs (id, revision, principal, chain_id, title, connection, pin, state, live, step_index, step_count, created, updated, document)
			VALUES ('readiness', 1, '', '', '', 'readiness', 'readiness', 'open', 1, 1, 1, ?1, ?1, '{}')`, at); err != nil {
			return err
		}
		if err := tx.Exec(`INSERT INTO saves (id, document) SELECT (number << 20) + 1, x'' FROM runs WHERE id = 'readiness'`); err != nil {
			return err
		}
		return errRehearsed
	})
	if errors.Is(err, errRehearsed) {
		return nil
	}
	return err
}

// probe reads what was stored last over a connection of its own, which has nothing in
// memory, and compares the log with what SQLite knows of it. It must not run
// beside a write.
func probe(ctx context.Context, d *database) (err error) {
	db, err := connect(d.path, nil, url.Values{"mode": {"ro"}, "_query_only": {"true"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	db.SetMaxOpenConns(1)
	if err := checkLog(ctx, d.path, db); err != nil {
		return err
	}
	for _, query := range newest {
		var stored sql.RawBytes
		err := pragma(ctx, db, query, func(scan func(...any) error) error { return scan(&stored) })
		if err != nil {
			return err
		}
	}
	return nil
}

// Sizes in the write-ahead log (SQLite file format, section 4.1).
const (
	logHeader, frameHeader = 32, 24
	// logChecked is how many of the last frames of the log are checked: a checkpoint
	// usually comes after 1,000.
	logChecked = 4096
)

// checkLog reports a write-ahead log that lost frames which SQLite still reads from it:
// another program cut it off. SQLite notices only when it needs one of them.
func checkLog(ctx context.Context, path string, db *sql.DB) error {
	var busy, frames, moved, page int64
	if err := db.QueryRowContext(ctx, `PRAGMA wal_checkpoint(NOOP)`).Scan(&busy, &frames, &moved); err != nil || frames <= 0 {
		return err
	}
	if err := db.QueryRowContext(ctx, `PRAGMA page_size`).Scan(&page); err != nil {
		return err
	}
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return err
	}
	log, err := os.Open(path + "-wal") // SQLite has no locks on this file
	if err != nil {
		return err
	}
	defer func() { _ = log.Close() }()
	header := make([]byte, logHeader)
	if _, err := log.ReadAt(header, 0); err != nil {
		return &logError{frames, 0}
	}
	salt, frame := header[16:24], make([]byte, frameHeader)
	for i := max(frames-logChecked, 0); i < frames; i++ {
		if _, err := log.ReadAt(frame, logHeader+i*(frameHeader+page)); err != nil || !bytes.Equal(frame[8:16], salt) || binary.BigEndian.Uint32(frame) == 0 {
			return &logError{frames, i}
		}
	}
	if info, err := log.Stat(); err != nil || info.Size() < logHeader+frames*(frameHeader+page) {
		return &logError{frames, frames - 1}
	}
	return nil
}

// logError reports a write-ahead log whose frames are not all there.
type logError struct{ frames, whole int64 }

func (e *logError) Error() string {
	return fmt.Sprintf("the write-ahead log has lost its last writes: of %d frames the first %d are whole", e.frames, e.whole)
}
