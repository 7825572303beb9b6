package sqlite

import (
	"context"
	"fmt"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/pack"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// StepChain implements library.Protocols.
func (p *Protocols) StepChain(ctx context.Context, spaces []string, stepUUID string) (protocol.Chain, int, error) {
	var row storedChain
	var position int
	err := p.db.row(ctx, `SELECT c.revision, c.outline, t.texts, s.position
		FROM steps s JOIN chains c ON c.key = s.chain JOIN texts t ON t.chain = c.key
		JOIN json_each(?2) visible ON visible.value = c.space
		WHERE s.uuid = step_key(?1) ORDER BY visible.key LIMIT 1`,
		[]any{stepUUID, list(spaces)}, &row.revision, &row.outline, &row.texts, &position)
	if err != nil {
		return protocol.Chain{}, 0, orNotFound(err, "step", stepUUID)
	}
	c, err := p.chain(stepUUID, row)
	if err == nil && position >= len(c.Steps) {
		err = p.db.damaged("chain of step", stepUUID, fmt.Errorf("it has no step %d", position+1))
	}
	return c, position, err
}

// Chain implements library.Protocols.
func (p *Protocols) Chain(ctx context.Context, spaces []string, id string) (protocol.Chain, error) {
	var row storedChain
	err := p.db.row(ctx, `SELECT c.revision, c.outline, t.texts FROM chains c JOIN texts t ON t.chain = c.key
		JOIN json_each(?2) visible ON visible.value = c.space
		WHERE c.id = ?1 ORDER BY visible.key LIMIT 1`, []any{id, list(spaces)}, &row.revision, &row.outline, &row.texts)
	if err != nil {
		return protocol.Chain{}, orNotFound(err, "protocol", id)
	}
	return p.chain(id, row)
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
	err = p.db.rows(ctx, `SELECT revision, outline FROM chains WHERE space = ? AND (title, id) > (?, ?)
		ORDER BY title, id LIMIT ?`, []any{space, after.Title, after.ID, limit + 1}, func(scan func(...any) error) error {
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
	err := p.db.row(ctx, `SELECT count(*) FROM chains WHERE space = ?`, []any{space}, &n)
	return n, err
}

// storedChain is a row with a chain.
type storedChain struct {
	revision       int64
	outline, texts []byte // packed; no texts: only the outline was read
}

func (d *database) chain(id string, row storedChain) (protocol.Chain, error) {
	c, err := row.read()
	if err != nil {
		return protocol.Chain{}, d.damaged("chain", id, err)
	}
	return c, nil
}

func (row storedChain) read() (protocol.Chain, error) {
	outline, err := pack.Unpack(row.outline)
	if err != nil {
		return protocol.Chain{}, err
	}
	var texts []byte
	if row.texts != nil {
		if texts, err = pack.Unpack(row.texts); err != nil {
			return protocol.Chain{}, err
		}
	}
	return record.ReadChain(row.revision, outline, texts)
}

// chain is database.chain for chains that are read again and again: to unpack and decode
// one takes longer than to find it. The stored bytes are the key, so that a chain
// which another process has changed is read anew.
func (p *Protocols) chain(id string, row storedChain) (protocol.Chain, error) {
	key := string(row.outline) + string(row.texts)
	c, ok := p.chains.Get(key)
	if !ok {
		var err error
		if c, err = p.db.chain(id, row); err != nil {
			return protocol.Chain{}, err
		}
		p.chains.Put(key, c, len(key)+c.Size())
	}
	c = c.Clone() // the caller may modify it
	c.Revision = row.revision
	return c, nil
}

// maxChains is how many bytes of chains are kept.
const maxChains = 4 << 20
