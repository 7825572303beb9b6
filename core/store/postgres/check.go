package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/kairos-mcp/kairos/core/store/tables"
)

// leastVersion is the oldest major version of PostgreSQL with everything that the
// schema and the statements use.
const leastVersion = 13

// checkServer reports a server that cannot keep a store, and warns of settings with
// which it may lose what it acknowledged.
func checkServer(ctx context.Context, conn *pgx.Conn, log *slog.Logger) error {
	version := conn.PgConn().ParameterStatus("server_version")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(strings.TrimRight(major, "abcdefghijklmnopqrstuvwxyz ")); err == nil && n < leastVersion {
		return &tooOldError{version}
	}
	var readOnly, fsync, commits string
	err := conn.QueryRow(ctx, `SELECT current_setting('transaction_read_only'), coalesce(current_setting('fsync', true), 'on'),
		coalesce(current_setting('synchronous_commit', true), 'on')`).Scan(&readOnly, &fsync, &commits)
	if err != nil {
		return err
	}
	if readOnly == "on" {
		return errReadOnly
	}
	if fsync == "off" || commits == "off" {
		log.WarnContext(ctx, "PostgreSQL may lose steps that KAIROS has acknowledged: turn fsync and synchronous_commit on",
			"fsync", fsync, "synchronous_commit", commits)
	}
	return nil
}

// Check reports whether the database can be used, without creating or changing
// anything, so that a server can refuse to start instead of failing its first call.
func (s *Store) Check() error {
	d := s.db
	ctx, cancel := context.WithTimeout(context.Background(), 2*connectTimeout)
	defer cancel()
	conn, err := pgx.ConnectConfig(ctx, d.config.ConnConfig.Copy())
	if err != nil {
		return d.explain(err)
	}
	err = func() error {
		if err := checkServer(ctx, conn, d.log); err != nil {
			return err
		}
		have, err := storedVersion(ctx, d, conn)
		if err != nil || have > 0 {
			return err
		}
		return checkEmpty(ctx, conn)
	}()
	if end := conn.Close(ctx); err == nil {
		err = end
	}
	return d.explain(err)
}

// checkEmpty rejects a database in which another program has tables of the same names.
func checkEmpty(ctx context.Context, conn *pgx.Conn) error {
	var taken bool
	err := conn.QueryRow(ctx, `SELECT EXISTS (SELECT 1 FROM information_schema.tables
		WHERE table_schema = current_schema() AND table_name IN ('chains', 'steps', 'versions', 'ratings', 'pins', 'runs', 'saves', 'acceptances'))`).Scan(&taken)
	if err == nil && taken {
		err = errForeign
	}
	return err
}

// CheckWrite reports why the next call may not be stored. Not more often than every
// ten seconds it reads what was stored last and commits a write that changes nothing;
// after a failure the next call tries again.
func (s *Store) CheckWrite(ctx context.Context) error {
	d := s.db
	return d.probe.Try(func() error {
		return d.Write(ctx, func(tx tables.Transaction) error {
			for _, query := range newest {
				if err := tx.Rows(query, nil, func(func(...any) error) error { return nil }); err != nil {
					return err
				}
			}
			// This number is never read, but setting it is a normal commit.
			return tx.Exec(`UPDATE kairos SET checked = $1 WHERE only_row = 1`, time.Now().UnixNano())
		})
	})
}

// newest are queries for what was stored last in the tables that a step needs.
var newest = []string{
	`SELECT r.document, p.document FROM runs r JOIN pins p ON p.digest = r.pin ORDER BY r.id DESC LIMIT 1`,
	`SELECT document FROM saves ORDER BY run DESC, revision DESC LIMIT 1`,
	`SELECT outline, texts FROM chains ORDER BY key DESC LIMIT 1`,
	`SELECT passage FROM steps WHERE chain = (SELECT max(key) FROM chains)`,
}

// QuickCheck reports damaged pages that PostgreSQL has found. It reads no table.
func (s *Store) QuickCheck(ctx context.Context) (damages []string, err error) {
	d := s.db
	conn, err := pgx.ConnectConfig(ctx, d.config.ConnConfig.Copy())
	if err != nil {
		return nil, d.explain(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	var failures int64
	err = conn.QueryRow(ctx, `SELECT coalesce(checksum_failures, 0) FROM pg_stat_database WHERE datname = current_database()`).Scan(&failures)
	if refusedWith(err, "42703") || refusedWith(err, "42P01") || errors.Is(err, pgx.ErrNoRows) {
		return nil, nil // a server of the protocol that counts none
	}
	if failures > 0 {
		damages = append(damages, fmt.Sprintf("PostgreSQL read %d pages of this database whose checksum is wrong", failures))
	}
	return damages, d.explain(err)
}

// inconsistencies are queries that count what does not agree, with what they count.
var inconsistencies = []struct{ query, what string }{
	{`SELECT count(*) FROM saves s WHERE NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = s.run)`, "rows of table saves refer to rows of runs that do not exist"},
	{`SELECT count(*) FROM runs r WHERE NOT EXISTS (SELECT 1 FROM saves s WHERE s.run = r.id AND s.revision = r.revision)`, "rows of table runs have no save of their revision"},
	{`SELECT count(*) FROM runs r WHERE NOT EXISTS (SELECT 1 FROM pins p WHERE p.digest = r.pin)`, "rows of table runs refer to rows of pins that do not exist"},
	{`SELECT count(*) FROM steps s WHERE NOT EXISTS (SELECT 1 FROM chains c WHERE c.key = s.chain)`, "rows of table steps refer to rows of chains that do not exist"},
	{`SELECT count(*) FROM chains c WHERE c.step_count <> (SELECT count(*) FROM steps s WHERE s.chain = c.key)`, "rows of table chains do not have all their steps"},
}

// maxDamages bounds the list of damages: the first ones show what happened.
const maxDamages = 20

// Integrity compares the tables and lists what does not agree: heads of runs and
// their saves, steps and their protocols, and protocols that cannot be read. It changes
// nothing. Damaged pages are for PostgreSQL's own tools.
func (s *Store) Integrity(ctx context.Context) (damages []string, err error) {
	d := s.db
	conn, err := pgx.ConnectConfig(ctx, d.config.ConnConfig.Copy())
	if err != nil {
		return nil, d.explain(err)
	}
	defer func() { _ = conn.Close(ctx) }()
	have, err := storedVersion(ctx, d, conn)
	if err != nil || have != d.version() {
		return nil, d.explain(err)
	}
	err = pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}, func(tx pgx.Tx) error {
		for _, i := range inconsistencies {
			var n int
			if err := tx.QueryRow(ctx, i.query).Scan(&n); err != nil {
				return err
			}
			if n > 0 {
				damages = append(damages, fmt.Sprintf("%d %s", n, i.what))
			}
		}
		return scanAll(ctx, tx, `SELECT space, title, outline, texts FROM chains ORDER BY key`, nil, func(scan func(...any) error) error {
			var space, title string
			var row tables.StoredChain
			if err := scan(&space, &title, &row.Outline, &row.Texts); err != nil {
				return err
			}
			if _, err := row.Read(dialect.Unpack); err != nil && len(damages) < maxDamages {
				damages = append(damages, fmt.Sprintf("protocol %q of %s cannot be read: %v", title, space, err))
			}
			return nil
		})
	})
	return damages, d.explain(err)
}
