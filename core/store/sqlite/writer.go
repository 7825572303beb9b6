package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kairos-mcp/kairos/core/store/lazy"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// writer owns the only connection that writes. Transactions that arrive while one
// is being committed share the next commit, because the sync to disk is expensive;
// each runs under a savepoint, so a failing one does not affect others.
//
// It has no goroutine: a caller that finds no active writer commits all pending
// jobs, its own and others', itself. For a single caller that saves two context
// switches.
type writer struct {
	db   *sql.DB
	conn *sql.Conn
	lock *writeLock
	tx   transaction
	// files is checked with every commit; set before the first job.
	files openFiles

	turn chan struct{} // holds a token; its owner may use conn, lock and tx

	mu      sync.Mutex // guards the fields below
	pending []*job
	closed  bool
}

// job is one caller's transaction.
type job struct {
	do      func(tables.Transaction) error
	claimed atomic.Bool // by the leader that runs it, or by its caller to cancel it
	ran     bool        // do was called
	err     error       // of do
	done    chan error  // takes the outcome
}

// newWriter makes the writer, which closes all three when it is closed. conn is a connection
// of db, and the lock is not taken yet.
func newWriter(db *sql.DB, conn *sql.Conn, lock *writeLock) *writer {
	w := &writer{
		db: db, conn: conn, lock: lock,
		tx:   transaction{conn: conn, stmts: map[string]*sql.Stmt{}},
		turn: make(chan struct{}, 1),
	}
	w.turn <- struct{}{}
	return w
}

// run executes do in a transaction and returns after its commit. A context that
// ends before do has started cancels it; later it has no effect, and run returns
// the outcome.
func (w *writer) run(ctx context.Context, do func(tables.Transaction) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{do: do, done: make(chan error, 1)}
	if err := w.submit(j); err != nil {
		return err
	}
	for {
		select {
		case err := <-j.done:
			return err
		case <-w.turn:
			w.lead(ctx)
			w.turn <- struct{}{}
			// Unless the context has ended, j is done now like all pending jobs.
		case <-ctx.Done():
			if j.claimed.CompareAndSwap(false, true) {
				return ctx.Err()
			}
			return <-j.done
		}
	}
}

func (w *writer) submit(j *job) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return lazy.ErrClosed
	}
	w.pending = append(w.pending, j)
	return nil
}

// lead runs all pending jobs. The caller holds the turn. If the context ends
// before the file is locked, the jobs stay pending and another caller leads.
func (w *writer) lead(ctx context.Context) {
	if ctx.Err() != nil || !w.isPending() {
		return // nothing pending: the previous leader has done it
	}
	err := w.lock.acquire(ctx)
	if err != nil && ctx.Err() != nil {
		return
	}
	batch := w.take()
	if err == nil {
		err = w.transact(batch)
		w.lock.release()
	}
	for _, j := range batch {
		switch {
		case j.ran: // so no other goroutine has claimed it
			j.done <- cmp.Or(j.err, err)
		case j.claimed.CompareAndSwap(false, true):
			j.done <- err
		}
	}
}

func (w *writer) isPending() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.pending) > 0
}

// take returns the pending jobs.
func (w *writer) take() []*job {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch := w.pending
	w.pending = nil
	return batch
}

// transact runs the jobs in one transaction. It returns why none of them is
// stored; each job keeps its own error. The files are checked before, so that
// nothing is written to a file that is gone, and again after the commit, so that
// no write to such a file is acknowledged.
func (w *writer) transact(batch []*job) error {
	if err := w.files.check(); err != nil {
		return err
	}
	if err := w.tx.Exec("BEGIN IMMEDIATE"); err != nil {
		return err
	}
	stored, err := w.runAll(batch)
	if err == nil && stored > 0 {
		if err = w.tx.Exec("COMMIT"); err == nil {
			return w.files.check()
		}
		err = fmt.Errorf("commit: %w", err)
	}
	// After some failures SQLite has rolled back already, so an error here is
	// irrelevant.
	_ = w.tx.Exec("ROLLBACK")
	return err
}

// runAll runs the jobs whose callers still wait and returns how many succeeded,
// and an error if the transaction is lost.
func (w *writer) runAll(batch []*job) (succeeded int, err error) {
	for _, j := range batch {
		if !j.claimed.CompareAndSwap(false, true) {
			continue // its caller has left
		}
		j.ran = true
		if len(batch) == 1 {
			j.err = j.do(&w.tx) // alone, it needs no savepoint
		} else if err := w.runApart(j); err != nil {
			return 0, err
		}
		if j.err == nil {
			succeeded++
		}
	}
	return succeeded, nil
}

// runApart runs a job under a savepoint. It returns an error if the whole
// transaction is lost.
func (w *writer) runApart(j *job) error {
	if err := w.tx.Exec("SAVEPOINT job"); err != nil {
		return err
	}
	if j.err = j.do(&w.tx); j.err != nil {
		if err := w.tx.Exec("ROLLBACK TO job"); err != nil {
			return errors.Join(j.err, err)
		}
	}
	return w.tx.Exec("RELEASE job")
}

// alone runs do while no other caller or process writes, outside of a transaction.
func (w *writer) alone(ctx context.Context, do func(tables.Transaction) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-w.turn:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { w.turn <- struct{}{} }()
	w.mu.Lock()
	closed := w.closed
	w.mu.Unlock()
	if closed {
		return lazy.ErrClosed
	}
	if err := w.lock.acquire(ctx); err != nil {
		return err
	}
	defer w.lock.release()
	if err := w.files.check(); err != nil {
		return err
	}
	return do(&w.tx)
}

// close finishes the accepted jobs. It keeps the turn forever.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	<-w.turn
	w.lead(context.Background())
	return w.disconnect()
}

func (w *writer) disconnect() error {
	return errors.Join(w.tx.close(), w.conn.Close(), w.db.Close(), w.lock.close())
}

// transaction is what a job may do. Its calls take no context: a job that has
// started is finished.
type transaction struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt
}

func (t *transaction) stmt(query string) (*sql.Stmt, error) {
	if stmt, ok := t.stmts[query]; ok {
		return stmt, nil
	}
	stmt, err := t.conn.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, err
	}
	t.stmts[query] = stmt
	return stmt, nil
}

func (t *transaction) Exec(query string, args ...any) error {
	stmt, err := t.stmt(query)
	if err != nil {
		return err
	}
	_, err = stmt.ExecContext(context.Background(), args...)
	return err
}

// rowsPerInsert bounds how many rows a statement inserts; this many statements may
// be kept prepared for a table.
const rowsPerInsert = 64

// insert inserts rows into a table, given as "name (columns)"; the values are
// those of one row after the other.
func insert(tx tables.Transaction, table string, columns int, values []any) error {
	row := ", (?" + strings.Repeat(", ?", columns-1) + ")"
	for chunk := range slices.Chunk(values, columns*rowsPerInsert) {
		if err := tx.Exec("INSERT INTO "+table+" VALUES "+strings.Repeat(row, len(chunk)/columns)[2:], chunk...); err != nil {
			return err
		}
	}
	return nil
}

// row reads one row into the pointers and reports whether there was one.
func (t *transaction) Row(query string, args []any, into ...any) (bool, error) {
	stmt, err := t.stmt(query)
	if err != nil {
		return false, err
	}
	err = stmt.QueryRowContext(context.Background(), args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// rows calls each for every row of a query.
func (t *transaction) Rows(query string, args []any, each tables.Each) error {
	stmt, err := t.stmt(query)
	if err != nil {
		return err
	}
	return scanAll(context.Background(), stmt, args, each)
}

// changed executes and returns how many rows were changed.
func (t *transaction) Changed(query string, args ...any) (int64, error) {
	stmt, err := t.stmt(query)
	if err != nil {
		return 0, err
	}
	result, err := stmt.ExecContext(context.Background(), args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

func (t *transaction) close() error {
	var err error
	for _, stmt := range t.stmts {
		err = errors.Join(err, stmt.Close())
	}
	return err
}
