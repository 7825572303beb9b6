package tables

import (
	"context"
	"runtime"
	"sync"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
)

var _ library.Changes = (*Protocols)(nil)

// Numbers returns the first of n successive numbers that were never given before. Until the
// transaction ends, no other one gets any: changes become visible in the order of their numbers.
func Numbers(tx Transaction, n int) (int64, error) {
	var last int64
	_, err := tx.Row(`UPDATE library SET numbers = numbers + $1 RETURNING numbers`, []any{n}, &last)
	return last - int64(n) + 1, err
}

// Touch numbers a change of each of the chains of a query for their keys, which has one argument.
// The caller has the lock of protocols.
func Touch(tx Transaction, keys string, argument any) error {
	var last int64
	if _, err := tx.Row(`SELECT numbers FROM library`, nil, &last); err != nil {
		return err
	}
	n, err := tx.Changed(`WITH touched AS (SELECT key, row_number() OVER (ORDER BY key) AS n FROM (SELECT DISTINCT chain AS key FROM (`+keys+`) s) k)
		UPDATE chains SET changed = $2 + (SELECT n FROM touched t WHERE t.key = chains.key) WHERE key IN (SELECT key FROM touched)`, argument, last)
	if err != nil || n == 0 {
		return err
	}
	_, err = Numbers(tx, int(n))
	return err
}

// ModelKey returns the key of a model with vectors of this length, which are being stored.
// The caller has the lock of protocols.
func ModelKey(tx Transaction, model string, length int) (int64, error) {
	key, err := Numbers(tx, 1)
	if err != nil {
		return 0, err
	}
	_, err = tx.Row(`INSERT INTO vector_models AS m (key, model, length, stored) VALUES ($1, $2, $3, $1)
		ON CONFLICT (model) DO UPDATE SET key = CASE WHEN m.length = excluded.length THEN m.key ELSE excluded.key END,
			length = excluded.length, stored = excluded.stored RETURNING key`, []any{key, model, length}, &key)
	return key, err
}

// LastChange implements library.Changes.
func (p *Protocols) LastChange(ctx context.Context) (last int64, err error) {
	err = p.db.Row(ctx, `SELECT numbers FROM library`, nil, &last)
	return last, err
}

// Changed implements library.Changes.
func (p *Protocols) Changed(ctx context.Context, since int64, limit int) ([]library.Changed, error) {
	if limit < 1 {
		return nil, ctx.Err()
	}
	var changes []library.Changed
	var rows []StoredChain
	// Each half has its limit, without which PostgreSQL sorts all later changes for each page.
	err := p.db.Rows(ctx, `SELECT l.changed, l.space, l.id, coalesce(c.revision, 0), c.outline, `+p.db.Texts+` FROM (
			SELECT * FROM (SELECT changed, space, id, key FROM chains WHERE changed > $1 ORDER BY changed LIMIT $2) there
			UNION ALL
			SELECT * FROM (SELECT changed, space, id, 0 FROM versions h WHERE changed > $1
				AND NOT EXISTS (SELECT 1 FROM chains c WHERE c.space = h.space AND c.id = h.id)
				AND NOT EXISTS (SELECT 1 FROM versions n WHERE n.space = h.space AND n.id = h.id AND n.revision > h.revision)
				ORDER BY changed LIMIT $2) deleted
			ORDER BY 1 LIMIT $2) l LEFT JOIN chains c ON c.key = l.key ORDER BY l.changed`, []any{since, limit}, func(scan func(...any) error) error {
		var c library.Changed
		var row StoredChain
		err := scan(&c.Number, &c.Space, &c.ChainID, &row.Revision, &row.Outline, &row.Texts)
		changes, rows = append(changes, c), append(rows, row)
		return err
	})
	if err != nil {
		return nil, err
	}
	p.decode(changes, rows)
	return changes, nil
}

// decode reads the chains of the changes on all processors, because it takes longer than
// reading their rows.
func (p *Protocols) decode(changes []library.Changed, rows []StoredChain) {
	workers := min(runtime.GOMAXPROCS(0), len(rows))
	var all sync.WaitGroup
	for worker := range workers {
		all.Go(func() {
			for i := worker; i < len(rows); i += workers {
				if rows[i].Outline == nil {
					continue
				}
				var c protocol.Chain
				if c, changes[i].Damage = p.db.Read(changes[i].ChainID, rows[i]); changes[i].Damage == nil {
					changes[i].Chain = &c
				}
			}
		})
	}
	all.Wait()
}
