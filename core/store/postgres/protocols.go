package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// StepChain implements library.Protocols.
func (p *Protocols) StepChain(ctx context.Context, spaces []string, stepUUID string) (protocol.Chain, int, error) {
	var row storedChain
	var position int
	err := p.db.row(ctx, `SELECT c.revision, c.outline, c.texts, s.position
		FROM unnest($2::text[]) WITH ORDINALITY AS visible (space, rank)
		JOIN steps s ON s.space = visible.space AND s.uuid = $1 JOIN chains c ON c.key = s.chain
		ORDER BY visible.rank LIMIT 1`, []any{stepUUID, spaces}, &row.revision, &row.outline, &row.texts, &position)
	if err != nil {
		return protocol.Chain{}, 0, orNotFound(err, "step", stepUUID)
	}
	c, err := p.db.chain(stepUUID, row)
	if err == nil && position >= len(c.Steps) {
		err = p.db.damaged("chain of step", stepUUID, fmt.Errorf("it has no step %d", position+1))
	}
	return c, position, err
}

// Chain implements library.Protocols.
func (p *Protocols) Chain(ctx context.Context, spaces []string, id string) (protocol.Chain, error) {
	var row storedChain
	err := p.db.row(ctx, `SELECT c.revision, c.outline, c.texts
		FROM unnest($2::text[]) WITH ORDINALITY AS visible (space, rank)
		JOIN chains c ON c.space = visible.space AND c.id = $1
		ORDER BY visible.rank LIMIT 1`, []any{id, spaces}, &row.revision, &row.outline, &row.texts)
	if err != nil {
		return protocol.Chain{}, orNotFound(err, "protocol", id)
	}
	return p.db.chain(id, row)
}

// List implements library.Protocols.
func (p *Protocols) List(ctx context.Context, space, cursor string, limit int) ([]protocol.Chain, string, error) {
	if limit < 1 {
		return nil, "", fault.New(fault.InvalidArgument, "a list of at most %d protocols", limit)
	}
	after, err := record.ParseCursor(cursor)
	if err != nil {
		return nil, "", err
	}
	limit = min(limit, 1<<30)
	var chains []protocol.Chain
	// One more, to know whether there is a next page.
	err = p.db.rows(ctx, `SELECT revision, outline FROM chains WHERE space = $1 AND (title, id) > ($2, $3)
		ORDER BY title, id LIMIT $4`, []any{space, after.Title, after.ID, limit + 1}, func(scan func(...any) error) error {
		var row storedChain
		if err := scan(&row.revision, &row.outline); err != nil {
			return err
		}
		c, err := p.db.chain("in the list", row)
		chains = append(chains, c)
		return err
	})
	if err != nil || len(chains) <= limit {
		return chains, "", err
	}
	chains = chains[:limit]
	last := chains[limit-1]
	return chains, record.Place{Title: last.Title, ID: last.ID}.Cursor(), nil
}

// Count implements library.Protocols.
func (p *Protocols) Count(ctx context.Context, space string) (int, error) {
	var n int
	err := p.db.row(ctx, `SELECT count(*) FROM chains WHERE space = $1`, []any{space}, &n)
	if errors.Is(err, pgx.ErrNoRows) { // a space that cannot be stored
		return 0, nil
	}
	return n, err
}

// storedChain is a row with a chain.
type storedChain struct {
	revision       int64
	outline, texts []byte // no texts: only the outline was read
}

func (d *database) chain(id string, row storedChain) (protocol.Chain, error) {
	c, err := record.ReadChain(row.revision, row.outline, row.texts)
	if err != nil {
		return protocol.Chain{}, d.damaged("chain", id, err)
	}
	return c, nil
}

func orNotFound(err error, what, id string) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return record.NotFound(what, id)
	}
	return err
}

func (d *database) damaged(what, id string, err error) error {
	return fault.Wrap(err, fault.StoreFailed, "database %s: %s %s cannot be read", d.name, what, id)
}
