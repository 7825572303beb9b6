package postgres

import (
	"context"
	"encoding/json"
	"time"

	"github.com/kairos-mcp/kairos/core/replicas"
	"github.com/kairos-mcp/kairos/core/store/tables"
)

// Servers keeps the servers that use the database, and their jobs.
type Servers struct {
	db *database
}

// now is the time of the database in nanoseconds. It moves on within a transaction.
const now = `CAST(extract(epoch FROM clock_timestamp()) * 1000000000 AS BIGINT)`

// SaveReplica implements replicas.Store.
func (s *Servers) SaveReplica(ctx context.Context, r replicas.Replica, forget time.Duration) error {
	state, err := json.Marshal(r.State)
	if err != nil {
		return err
	}
	return bounded(ctx, s.db, func(tx tables.Transaction) error {
		if err := tx.Exec(`DELETE FROM replicas WHERE seen < `+now+` - $1`, forget.Nanoseconds()); err != nil {
			return err
		}
		return tx.Exec(`INSERT INTO replicas (id, address, version, started, seen, state) VALUES ($1, $2, $3, $4, `+now+`, $5)
			ON CONFLICT (id) DO UPDATE SET address = excluded.address, version = excluded.version, seen = excluded.seen, state = excluded.state`,
			r.ID, r.Address, r.Version, r.Started.UnixNano(), state)
	})
}

// RemoveReplica implements replicas.Store.
func (s *Servers) RemoveReplica(ctx context.Context, id string) error {
	return bounded(ctx, s.db, func(tx tables.Transaction) error { return tx.Exec(`DELETE FROM replicas WHERE id = $1`, id) })
}

// Replicas implements replicas.Store.
func (s *Servers) Replicas(ctx context.Context) (all []replicas.Replica, err error) {
	err = s.db.Rows(ctx, `SELECT id, address, version, started, `+now+` - seen, state FROM replicas ORDER BY started, id`, nil, func(scan func(...any) error) error {
		var r replicas.Replica
		var started, unseen int64
		var state []byte
		if err := scan(&r.ID, &r.Address, &r.Version, &started, &unseen, &state); err != nil {
			return err
		}
		r.Started, r.Unseen = time.Unix(0, started), time.Duration(unseen)
		if err := json.Unmarshal(state, &r.State); err != nil {
			return s.db.Damaged("replica", r.ID, err)
		}
		all = append(all, r)
		return nil
	})
	return all, err
}

// TakeLease implements replicas.Store.
func (s *Servers) TakeLease(ctx context.Context, job, holder string, ttl time.Duration) (got bool, err error) {
	err = bounded(ctx, s.db, func(tx tables.Transaction) error {
		n, err := tx.Changed(`INSERT INTO leases (job, holder, until) VALUES ($1, $2, `+now+` + $3)
			ON CONFLICT (job) DO UPDATE SET holder = excluded.holder, until = excluded.until
			WHERE leases.holder = excluded.holder OR leases.until < `+now, job, holder, ttl.Nanoseconds())
		got = n > 0
		return err
	})
	return got && err == nil, err
}

// ReturnLease implements replicas.Store.
func (s *Servers) ReturnLease(ctx context.Context, job, holder string) error {
	return bounded(ctx, s.db, func(tx tables.Transaction) error {
		return tx.Exec(`UPDATE leases SET until = 0 WHERE job = $1 AND holder = $2`, job, holder)
	})
}
