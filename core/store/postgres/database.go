package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/store/lazy"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

const (
	connectTimeout = 5 * time.Second
	// patience is how long a call waits for a server that restarts.
	patience = 10 * time.Second
	// statementTimeout bounds a write: once it is sent, its caller's context no longer
	// matters, because its outcome must be known.
	statementTimeout = 30 * time.Second
	// readTimeout is how long a read waits for the next row of a server that says nothing.
	readTimeout = 30 * time.Second
	// transactionTimeout bounds a change of protocols, which may wait for an import.
	transactionTimeout = 2 * time.Minute
)

// database is the connections to one database, which the first call opens.
type database struct {
	pool   *lazy.Value[pgxpool.Pool]
	config *pgxpool.Config
	name   string // the address, for messages
	log    *slog.Logger
	probe  tables.Probe
	silent time.Duration // readTimeout

	missing    tables.Missing
	migrations []string // of the schema
}

func newDatabase(address string, missing tables.Missing, log *slog.Logger) (*database, error) {
	config, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	d := &database{config: config, name: Redacted(address), log: log, silent: readTimeout, missing: missing, migrations: migrations}
	d.pool = lazy.New(d.open, func(ctx context.Context) { tables.ResumeScrub(ctx, newRuns(d), d.name, d.log) })
	return d, nil
}

func (d *database) base() tables.Base { return tables.Base{Database: d, Dialect: dialect} }

// Close finishes the calls under way and releases the connections. Later calls fail.
// It may be called twice, and before the first use.
func (s *Store) Close() error {
	if pool := s.db.pool.Close(); pool != nil {
		pool.Close()
	}
	return nil
}

// open connects and updates the schema.
func (d *database) open(ctx context.Context) (*pgxpool.Pool, error) {
	config := d.config.Copy()
	if err := d.meet(ctx, config.ConnConfig); err != nil {
		return nil, err
	}
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, d, pool); err != nil {
		pool.Close()
		return nil, err
	}
	return pool, nil
}

// meet checks the server and chooses how statements are sent to it.
func (d *database) meet(ctx context.Context, config *pgx.ConnConfig) (err error) {
	conn, err := pgx.ConnectConfig(ctx, config.Copy())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close(ctx)) }()
	if err := checkServer(ctx, conn, d.log); err != nil {
		return err
	}
	if config.DefaultQueryExecMode != pooledMode {
		return nil // the address says how
	}
	// A pooler gives its clients keys of its own, so that it can cancel their statements.
	var process uint32
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&process); err != nil {
		return err
	}
	if process == conn.PgConn().PID() {
		config.DefaultQueryExecMode = pgx.QueryExecModeCacheStatement
	}
	return nil
}

// persevere repeats an attempt while its failure is one that passes: the server
// restarts, or a transaction lost against another one. An attempt after one whose
// outcome is unknown is told so.
func (d *database) persevere(ctx context.Context, attempt func(pool *pgxpool.Pool, uncertain bool) error) error {
	end := time.Now().Add(patience)
	uncertain := false
	for wait := 10 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		pool, err := d.pool.Use(ctx)
		if err == nil {
			err = attempt(pool, uncertain)
		}
		var unknown *outcomeError
		uncertain = uncertain || errors.As(err, &unknown)
		switch {
		case err == nil:
			return nil
		case !uncertain && ctx.Err() != nil && errors.Is(err, ctx.Err()):
			return ctx.Err()
		case uncertain && (!passes(err) || ctx.Err() != nil || time.Now().After(end)):
			return d.explain(&outcomeError{err})
		case !passes(err), time.Now().After(end):
			return d.explain(err)
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			if !uncertain {
				return d.explain(err) // why it had to wait
			}
		}
	}
}

// querier runs statements: a connection or a transaction.
type querier interface {
	Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error)
}

func scanAll(ctx context.Context, q querier, sql string, args []any, each tables.Each) error {
	rows, err := q.Query(ctx, sql, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// read is scanAll for reads that nothing else bounds. A server that holds the connection
// and sends nothing for a while is errSilent.
func (d *database) read(ctx context.Context, q querier, sql string, args []any, each tables.Each) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	patience := time.AfterFunc(d.silent, func() { cancel(errSilent) })
	defer patience.Stop()
	err := scanAll(ctx, q, sql, args, func(scan func(...any) error) error {
		patience.Stop() // what is done with a row may take longer
		defer patience.Reset(d.silent)
		return each(scan)
	})
	if err != nil && errors.Is(context.Cause(ctx), errSilent) {
		return errSilent
	}
	return err
}

// Rows calls each for every row of a query. A text that cannot be stored is in no row.
func (d *database) Rows(ctx context.Context, sql string, args []any, each tables.Each) error {
	return d.reading(ctx, func(conn *pgxpool.Conn) error {
		begun := false
		err := d.read(ctx, conn, sql, args, func(scan func(...any) error) error {
			begun = true
			return each(scan)
		})
		if err != nil && begun && !isUnstorable(err) {
			return &brokenError{err} // its rows were used already
		}
		return err
	})
}

// reading calls do with a connection for reads.
func (d *database) reading(ctx context.Context, do func(*pgxpool.Conn) error) error {
	return d.persevere(ctx, func(pool *pgxpool.Pool, _ bool) error {
		conn, err := pool.Acquire(ctx)
		if err != nil {
			return err
		}
		defer conn.Release()
		if err := do(conn); !isUnstorable(err) {
			return err
		}
		return nil
	})
}

// statement executes a statement that changes rows only if nobody else did before, and
// returns how many it changed. Its context ends it only before it is sent. If an
// earlier try may have been stored and this one changes nothing, stored tells whether
// that try was.
func (d *database) statement(ctx context.Context, sql string, args []any, stored func(ctx context.Context, conn *pgxpool.Conn) (bool, error)) (changed int64, err error) {
	err = d.persevere(ctx, func(pool *pgxpool.Pool, uncertain bool) error {
		conn, err := acquire(ctx, pool)
		if err != nil {
			return err
		}
		defer conn.Release()
		sent, cancel := context.WithTimeout(context.WithoutCancel(ctx), statementTimeout)
		defer cancel()
		tag, err := conn.Exec(sent, sql, args...)
		changed = tag.RowsAffected()
		if err != nil || changed > 0 || !uncertain {
			return outcome(err)
		}
		mine, err := stored(sent, conn)
		if mine {
			changed = 1
		}
		return err
	})
	return changed, err
}

// acquire takes a connection for a write.
func acquire(ctx context.Context, pool *pgxpool.Pool) (*pgxpool.Conn, error) {
	conn, err := pool.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		conn.Release()
		return nil, err
	}
	return conn, nil
}

// Write runs do in a transaction and returns when it is durable. do may run several
// times. The context ends it only before it has begun.
func (d *database) Write(ctx context.Context, do func(tables.Transaction) error) error {
	return commit(ctx, d, context.WithoutCancel, do)
}

// bounded is Write for what may be lost, such as a heartbeat: the context ends it at any
// time, so that a server that stops does not wait for locks of others.
func bounded(ctx context.Context, d *database, do func(tables.Transaction) error) error {
	return commit(ctx, d, func(ctx context.Context) context.Context { return ctx }, do)
}

// commit runs do in a transaction, whose context is made of that of the call.
func commit(ctx context.Context, d *database, begun func(context.Context) context.Context, do func(tables.Transaction) error) error {
	return d.persevere(ctx, func(pool *pgxpool.Pool, uncertain bool) error {
		if uncertain {
			return errors.New("the connection was lost while the transaction was committed")
		}
		conn, err := acquire(ctx, pool)
		if err != nil {
			return err
		}
		defer conn.Release()
		inside, cancel := context.WithTimeout(begun(ctx), transactionTimeout)
		defer cancel()
		return transact(inside, conn.Conn(), do)
	})
}

// transact runs do in a transaction.
func transact(ctx context.Context, conn *pgx.Conn, do func(tables.Transaction) error) error {
	tx, err := conn.BeginTx(ctx, pgx.TxOptions{IsoLevel: pgx.ReadCommitted})
	if err != nil {
		return err
	}
	if err := do(&transaction{ctx: ctx, tx: tx}); err != nil {
		return errors.Join(err, rollback(ctx, tx))
	}
	return outcome(tx.Commit(ctx))
}

// rollback ends a transaction that failed. Where the connection is lost, the server
// does.
func rollback(ctx context.Context, tx pgx.Tx) error {
	if err := tx.Rollback(ctx); err != nil && !tx.Conn().IsClosed() {
		return fmt.Errorf("roll back: %w", err)
	}
	return nil
}

// transaction is what a write may do. Its calls take no context: a transaction that
// has begun is finished.
type transaction struct {
	ctx context.Context
	tx  pgx.Tx
}

func (t *transaction) Exec(sql string, args ...any) error {
	_, err := t.Changed(sql, args...)
	return err
}

// Changed executes and returns how many rows were changed.
func (t *transaction) Changed(sql string, args ...any) (int64, error) {
	tag, err := t.tx.Exec(t.ctx, sql, args...)
	return tag.RowsAffected(), err
}

// Row reads one row into the pointers and reports whether there was one.
func (t *transaction) Row(sql string, args []any, into ...any) (bool, error) {
	err := t.tx.QueryRow(t.ctx, sql, args...).Scan(into...)
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// Rows calls each for every row of a query.
func (t *transaction) Rows(sql string, args []any, each tables.Each) error {
	return scanAll(t.ctx, t.tx, sql, args, each)
}

// Damaged implements tables.Database.
func (d *database) Damaged(what, id string, err error) error {
	return fault.Wrap(err, fault.StoreFailed, "database %s: %s %s cannot be read", d.name, what, id)
}
