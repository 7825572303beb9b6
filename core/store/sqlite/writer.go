package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// writer owns the only connection that writes. Transactions that arrive while
// one is being committed share the next commit, since the sync to disk is what
// costs; each runs under a savepoint, so one that fails does not harm others.
type writer struct {
	db   *sql.DB
	conn *sql.Conn
	lock *writeLock
	tx   transaction

	mu      sync.Mutex // guards the fields below
	pending []*job
	started bool
	closed  bool

	wake    chan struct{} // holds a token when there is something to look at
	stopped chan struct{} // closed when the goroutine has ended
}

// job is one caller's transaction.
type job struct {
	do      func(*transaction) error
	claimed atomic.Bool // by the writer, to run it, or by the caller, to give up
	err     error       // of do
	done    chan error  // takes the outcome
}

func newWriter(db *sql.DB, conn *sql.Conn, lock *writeLock) *writer {
	return &writer{
		db: db, conn: conn, lock: lock,
		tx:   transaction{conn: conn, stmts: map[string]*sql.Stmt{}},
		wake: make(chan struct{}, 1), stopped: make(chan struct{}),
	}
}

// run has do executed in a transaction and returns after its commit. A context
// that ends before do has started cancels it; later it is too late, and run
// returns what became of it.
func (w *writer) run(ctx context.Context, do func(*transaction) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	j := &job{do: do, done: make(chan error, 1)}
	if err := w.submit(j); err != nil {
		return err
	}
	select {
	case err := <-j.done:
		return err
	case <-ctx.Done():
		if j.claimed.CompareAndSwap(false, true) {
			return ctx.Err()
		}
		return <-j.done
	}
}

func (w *writer) submit(j *job) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errClosed
	}
	if !w.started {
		w.started = true
		go w.serve()
	}
	w.pending = append(w.pending, j)
	w.nudge()
	return nil
}

func (w *writer) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *writer) serve() {
	defer close(w.stopped)
	for range w.wake {
		batch, last := w.take()
		if len(batch) > 0 {
			w.commit(batch)
		}
		if last {
			return
		}
	}
}

// take returns what is pending, and whether nothing can follow.
func (w *writer) take() (batch []*job, last bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	batch, w.pending = w.pending, nil
	return batch, w.closed
}

// commit runs the jobs in one transaction. Nobody hears of success before the
// commit has returned.
func (w *writer) commit(batch []*job) {
	ran, err := w.transact(batch)
	for _, j := range ran {
		if j.err == nil {
			j.err = err
		}
		j.done <- j.err
	}
	if err == nil {
		return
	}
	for _, j := range batch { // those that never ran
		if j.claimed.CompareAndSwap(false, true) {
			j.done <- err
		}
	}
}

// transact returns the jobs it has run, and why none of them is stored.
func (w *writer) transact(batch []*job) (ran []*job, err error) {
	// The wait is the batch's, not one caller's: callers leave it by claiming
	// their job, and patience bounds it.
	if err := w.lock.acquire(context.Background()); err != nil {
		return nil, err
	}
	defer w.lock.release()
	if err := w.tx.exec("BEGIN IMMEDIATE"); err != nil {
		return nil, err
	}
	ran, err = w.runAll(batch)
	stored := 0
	for _, j := range ran {
		if j.err == nil {
			stored++
		}
	}
	if err != nil || stored == 0 {
		// After some failures SQLite has rolled back already, so an error
		// here says nothing new.
		_ = w.tx.exec("ROLLBACK")
		return ran, err
	}
	if err := w.tx.exec("COMMIT"); err != nil {
		_ = w.tx.exec("ROLLBACK")
		return ran, fmt.Errorf("commit: %w", err)
	}
	return ran, nil
}

func (w *writer) runAll(batch []*job) (ran []*job, err error) {
	for _, j := range batch {
		if !j.claimed.CompareAndSwap(false, true) {
			continue // its caller has left
		}
		ran = append(ran, j)
		if len(batch) == 1 {
			j.err = j.do(&w.tx)
			return ran, nil
		}
		if err := w.runOne(j); err != nil {
			return ran, err
		}
	}
	return ran, nil
}

// runOne runs a job under a savepoint. It returns an error when the whole
// transaction is lost.
func (w *writer) runOne(j *job) error {
	if err := w.tx.exec("SAVEPOINT job"); err != nil {
		j.err = err
		return err
	}
	if j.err = j.do(&w.tx); j.err != nil {
		if err := w.tx.exec("ROLLBACK TO job"); err != nil {
			return errors.Join(j.err, err)
		}
	}
	return w.tx.exec("RELEASE job")
}

// close finishes what was accepted and waits for the goroutine.
func (w *writer) close() error {
	w.mu.Lock()
	w.closed = true
	started := w.started
	w.nudge()
	w.mu.Unlock()
	if started {
		<-w.stopped
	}
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

func (t *transaction) exec(query string, args ...any) error {
	stmt, err := t.stmt(query)
	if err != nil {
		return err
	}
	_, err = stmt.Exec(args...)
	return err
}

// row reads one row into the pointers and reports whether there was one.
func (t *transaction) row(query string, args []any, into ...any) (bool, error) {
	stmt, err := t.stmt(query)
	if err != nil {
		return false, err
	}
	err = stmt.QueryRow(args...).Scan(into...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// changed executes and returns how many rows were changed.
func (t *transaction) changed(query string, args ...any) (int64, error) {
	stmt, err := t.stmt(query)
	if err != nil {
		return 0, err
	}
	result, err := stmt.Exec(args...)
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
