package tables

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/kairos-mcp/kairos/core/cache"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// Protocols keeps protocols, their vectors and ratings.
type Protocols struct {
	db     Base
	chains *cache.Cache[string, protocol.Chain] // by their documents
}

// maxChains is how many bytes of chains are kept.
const maxChains = 4 << 20

// NewProtocols returns the protocols of a database.
func NewProtocols(b Base) Protocols {
	return Protocols{b, cache.New[string, protocol.Chain](maxChains)}
}

// StepChain implements library.Protocols.
func (p *Protocols) StepChain(ctx context.Context, spaces []string, stepUUID string) (protocol.Chain, int, error) {
	var row StoredChain
	var position int
	err := p.db.Row(ctx, `SELECT c.revision, c.outline, `+p.db.Texts+`, s.position
		FROM `+p.db.Visible+` JOIN steps s ON `+p.db.IsStep+` JOIN chains c ON c.key = s.chain AND c.space = v.space
		ORDER BY v.rank LIMIT 1`, []any{stepUUID, p.db.List(spaces)}, &row.Revision, &row.Outline, &row.Texts, &position)
	if err != nil {
		return protocol.Chain{}, 0, orNotFound(err, "step", stepUUID)
	}
	c, err := p.often(stepUUID, row)
	if err == nil && position >= len(c.Steps) {
		err = p.db.Damaged("chain of step", stepUUID, fmt.Errorf("it has no step %d", position+1))
	}
	return c, position, err
}

// Chain implements library.Protocols.
func (p *Protocols) Chain(ctx context.Context, spaces []string, id string) (protocol.Chain, error) {
	var row StoredChain
	err := p.db.Row(ctx, `SELECT c.revision, c.outline, `+p.db.Texts+`
		FROM `+p.db.Visible+` JOIN chains c ON c.space = v.space AND c.id = $1
		ORDER BY v.rank LIMIT 1`, []any{id, p.db.List(spaces)}, &row.Revision, &row.Outline, &row.Texts)
	if err != nil {
		return protocol.Chain{}, orNotFound(err, "protocol", id)
	}
	return p.often(id, row)
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
	err = p.db.Rows(ctx, `SELECT revision, outline FROM chains WHERE space = $1 AND (title, id) > ($2, $3)
		ORDER BY title, id LIMIT $4`, []any{space, after.Title, after.ID, limit + 1}, func(scan func(...any) error) error {
		var row StoredChain
		if err := scan(&row.Revision, &row.Outline); err != nil {
			return err
		}
		c, err := p.db.Read("in the list", row)
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
func (p *Protocols) Count(ctx context.Context, space string) (n int, err error) {
	err = p.db.Row(ctx, `SELECT count(*) FROM chains WHERE space = $1`, []any{space}, &n)
	if errors.Is(err, sql.ErrNoRows) { // a space that cannot be stored
		return 0, nil
	}
	return n, err
}

// inOneSpace finds the space whose history is read: the first one that has the
// chain, else the first one that had it. Its table is "place".
func inOneSpace(d *Dialect) string {
	return `WITH place AS (
		SELECT v.space, c.key IS NULL AS gone FROM ` + d.Visible + `
		LEFT JOIN chains c ON c.space = v.space AND c.id = $1
		WHERE c.key IS NOT NULL OR EXISTS (SELECT 1 FROM versions h WHERE h.space = v.space AND h.id = $1)
		ORDER BY gone, v.rank LIMIT 1
	) `
}

// Versions implements library.ProtocolHistory.
func (p *Protocols) Versions(ctx context.Context, spaces []string, id string) (versions []library.Version, err error) {
	err = p.db.Rows(ctx, inOneSpace(p.db.Dialect)+`
		SELECT c.revision, c.title, c.step_count, c.model, c.saved, false
		FROM place p JOIN chains c ON c.space = p.space AND c.id = $1
		UNION ALL
		SELECT h.revision, h.title, h.step_count, h.model, h.saved, h.outline IS NULL
		FROM place p JOIN versions h ON h.space = p.space AND h.id = $1
		ORDER BY 1 DESC`, []any{id, p.db.List(spaces)}, func(scan func(...any) error) error {
		var v library.Version
		var saved int64
		if err := scan(&v.Revision, &v.Title, &v.StepCount, &v.ModelID, &saved, &v.Deleted); err != nil {
			return err
		}
		v.SavedAt = record.TimeOf(saved)
		versions = append(versions, v)
		return nil
	})
	if err == nil && len(versions) == 0 {
		err = record.NotFound("protocol", id)
	}
	return versions, err
}

// Version implements library.ProtocolHistory.
func (p *Protocols) Version(ctx context.Context, spaces []string, id string, revision int64) (protocol.Chain, error) {
	row := StoredChain{Revision: revision}
	err := p.db.Row(ctx, inOneSpace(p.db.Dialect)+`
		SELECT c.outline, `+p.db.Texts+` FROM place p JOIN chains c ON c.space = p.space AND c.id = $1 WHERE c.revision = $3
		UNION ALL
		SELECT h.outline, h.texts FROM place p JOIN versions h ON h.space = p.space AND h.id = $1
		WHERE h.revision = $3 AND h.outline IS NOT NULL`, []any{id, p.db.List(spaces), revision}, &row.Outline, &row.Texts)
	if err != nil {
		return protocol.Chain{}, orNotFound(err, "that version of protocol", id)
	}
	return p.db.Read(id, row)
}

// Former implements library.Protocols.
func (p *Protocols) Former(ctx context.Context, spaces []string, stepUUID string) (found library.Former, err error) {
	var row StoredChain
	err = p.db.Row(ctx, `SELECT coalesce(c.revision, h.revision), coalesce(c.outline, h.outline), c.key IS NULL
		FROM `+p.db.Visible+` JOIN former f ON f.space = v.space AND f.uuid = $1
		LEFT JOIN chains c ON c.space = f.space AND c.id = f.id
		LEFT JOIN versions h ON c.key IS NULL AND h.space = f.space AND h.id = f.id AND h.revision = (
			SELECT max(revision) FROM versions WHERE space = f.space AND id = f.id AND outline IS NOT NULL)
		ORDER BY v.rank LIMIT 1`, []any{stepUUID, p.db.List(spaces)}, &row.Revision, &row.Outline, &found.Deleted)
	if err != nil {
		return library.Former{}, orNotFound(err, "step", stepUUID)
	}
	found.Chain, err = p.db.Read(stepUUID, row)
	return found, err
}

// StoredChain is a row with a chain.
type StoredChain struct {
	Revision       int64
	Outline, Texts []byte // packed; nil texts: only the outline was read
}

// Read reads a stored chain.
func (b Base) Read(id string, row StoredChain) (protocol.Chain, error) {
	c, err := row.Read(b.Unpack)
	if err != nil {
		return protocol.Chain{}, b.Damaged("chain", id, err)
	}
	return c, nil
}

// Read reads a stored chain.
func (row StoredChain) Read(unpack func([]byte) ([]byte, error)) (protocol.Chain, error) {
	outline, err := unpack(row.Outline)
	if err != nil {
		return protocol.Chain{}, err
	}
	var texts []byte
	if row.Texts != nil {
		if texts, err = unpack(row.Texts); err != nil {
			return protocol.Chain{}, err
		}
	}
	return record.ReadChain(row.Revision, outline, texts)
}

// often is Read for chains that are read again and again: to decode one takes longer than
// to find it. The stored bytes are the key, so that a chain which another process has
// changed is read anew.
func (p *Protocols) often(id string, row StoredChain) (protocol.Chain, error) {
	key := string(row.Outline) + string(row.Texts)
	c, ok := p.chains.Get(key)
	if !ok {
		var err error
		if c, err = p.db.Read(id, row); err != nil {
			return protocol.Chain{}, err
		}
		p.chains.Put(key, c, len(key)+c.Size())
	}
	c = c.Clone() // the caller may modify it
	c.Revision = row.Revision
	return c, nil
}

// Known implements library.Vectors.
func (p *Protocols) Known(ctx context.Context, model string, hashes []string) (map[string][]float32, error) {
	known := make(map[string][]float32)
	if len(hashes) == 0 {
		return known, ctx.Err()
	}
	err := p.db.Rows(ctx, `SELECT v.hash, v.vector FROM vectors v JOIN vector_models m ON m.key = v.model
		WHERE m.model = $1 AND v.hash `+p.db.HashIn, []any{model, p.db.Hashes(hashes)}, func(scan func(...any) error) error {
		var hash, vector []byte
		if err := scan(&hash, &vector); err != nil {
			return err
		}
		known[hex.EncodeToString(hash)] = record.ParseVector(vector)
		return nil
	})
	return known, err
}

// Missing implements library.Vectors.
func (p *Protocols) Missing(ctx context.Context, model string, limit int) (passages []library.Passage, err error) {
	if limit < 1 {
		return nil, ctx.Err()
	}
	err = p.db.Rows(ctx, p.db.Unembedded, []any{model, limit}, func(scan func(...any) error) error {
		var position int
		var row StoredChain
		if err := scan(&position, &row.Outline, &row.Texts); err != nil {
			return err
		}
		c, err := p.db.Read("of a passage", row)
		if err != nil {
			return err
		}
		if position >= len(c.Steps) {
			return p.db.Damaged("chain", c.ID, fmt.Errorf("it has no step %d", position+1))
		}
		text := c.Passage(position)
		passages = append(passages, library.Passage{Hash: protocol.PassageHash(text), Text: text})
		return nil
	})
	return passages, err
}
