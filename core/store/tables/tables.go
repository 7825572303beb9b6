// Package tables is what the SQL stores do alike: the statements that both databases
// understand, and what becomes of their rows. It knows no driver; how a database is
// opened, written and searched is a matter of its store.
package tables

import (
	"context"
	"database/sql"
	"errors"
	"log/slog"

	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// Each is called for every row of a query.
type Each = func(scan func(...any) error) error

// Database runs statements. Their arguments are $1, $2 and so on.
type Database interface {
	// Rows calls each for every row of a query.
	Rows(ctx context.Context, query string, args []any, each Each) error
	// Write runs do in a transaction, perhaps several times, and returns when it is durable.
	Write(ctx context.Context, do func(Transaction) error) error
	// Damaged is the error for a row that cannot be read.
	Damaged(what, id string, err error) error
}

// Transaction is what a write may do. Its calls take no context: a transaction that has
// begun is finished.
type Transaction interface {
	Exec(query string, args ...any) error
	// Changed executes and returns how many rows were changed.
	Changed(query string, args ...any) (int64, error)
	// Row reads one row into the pointers and reports whether there was one.
	Row(query string, args []any, into ...any) (bool, error)
	Rows(query string, args []any, each Each) error
}

// Dialect is the SQL in which the databases differ.
type Dialect struct {
	// List makes an argument of a slice, and In is the condition that a value is one of
	// those in argument n.
	List func(slice any) any
	In   func(n int) string
	// Hashes makes an argument of several hashes in hex, and HashIn is the condition
	// that a hash is one of those in argument 2.
	Hashes func(hashes []string) any
	HashIn string
	// Unpack returns a packed document as JSON, and JSON makes an argument of one that is
	// stored as it is.
	Unpack func(stored []byte) ([]byte, error)
	JSON   func(document []byte) any

	Visible    string // the spaces in argument 2 as a table v with their ranks
	Texts      string // of chain c
	IsStep     string // the condition that step s of a space in v has the UUID in argument 1
	HasStep    string // a query for the step with the UUID in argument 1 of the space in argument 2
	Unembedded string // a query for position, outline and texts of passages without a vector of model $1, at most $2
	LastMark   string // the last revision of the outbox
	Compared   string // the condition that searches compare what a mark of the outbox is for
	LockMarks  string // a query before marks are removed; empty: none
	MarkAll    func(Transaction) error

	RunSpace    string // the space of the protocol of run r
	EndedBy     string // how run r ended
	Live, Ended string // the conditions that run r is live, and, before a comparison, when it ended
	ByProtocol  string // the index of live runs by protocol, and that by connection
	ByConnected string
	Saves       string // FROM and WHERE of the saves s of the run in argument 1 after revision $2 up to $3
	SaveOrder   string // the column that orders them
	HasReply    string // the condition that save s has a reply with the key in argument 4, between newlines
}

// Base is a database and its dialect.
type Base struct {
	Database
	*Dialect
}

// Row reads one row into the pointers. No row at all is sql.ErrNoRows.
func (b Base) Row(ctx context.Context, query string, args []any, into ...any) error {
	found := false
	err := b.Rows(ctx, query, args, func(scan func(...any) error) error {
		found = true
		return scan(into...)
	})
	if err == nil && !found {
		return sql.ErrNoRows
	}
	return err
}

func orNotFound(err error, what, id string) error {
	if errors.Is(err, sql.ErrNoRows) {
		return record.NotFound(what, id)
	}
	return err
}

// An eraser makes erased values unreadable.
type eraser interface {
	Unscrubbed(ctx context.Context) ([]run.ID, error)
	Scrub(ctx context.Context) error
}

// ResumeScrub completes the redaction of a killed process, which had erased values from
// runs but not from where else the database has them.
func ResumeScrub(ctx context.Context, s eraser, database string, log *slog.Logger) {
	ids, err := s.Unscrubbed(ctx)
	if err == nil && len(ids) > 0 {
		log.InfoContext(ctx, "resuming an interrupted redaction", "database", database, "runs", len(ids))
		err = s.Scrub(ctx)
	}
	if err != nil && ctx.Err() == nil {
		log.WarnContext(ctx, "erased values may still be readable in the database", "database", database, "error", err)
	}
}
