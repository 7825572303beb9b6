package postgres

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// keepVersion copies the stored chain into the history, and drops versions that are
// too old.
func keepVersion(tx *transaction, c current) error {
	if err := tx.exec(`INSERT INTO versions (space, id, revision, title, step_count, model, saved, outline, texts)
		SELECT space, id, revision, title, step_count, model, saved, outline, texts FROM chains WHERE key = $1`, c.key); err != nil {
		return err
	}
	// The version that replaces it counts, too.
	return tx.exec(`DELETE FROM versions WHERE space = $1 AND id = $2 AND revision <= $3`,
		c.space, c.id, c.revision+1-record.VersionsKept)
}

func recordDeletion(tx *transaction, c current) error {
	return tx.exec(`INSERT INTO versions (space, id, revision, title, step_count, model, saved)
		VALUES ($1, $2, $3, $4, 0, '', $5)`, c.space, c.id, c.revision+1, c.title, time.Now().UnixNano())
}

// lastRevision is the newest revision in the history, or 0 if there is none.
func lastRevision(tx *transaction, space, id string) (int64, error) {
	var last int64
	_, err := tx.row(`SELECT coalesce(max(revision), 0) FROM versions WHERE space = $1 AND id = $2`, []any{space, id}, &last)
	return last, err
}

// inOneSpace finds the space whose history is read: the first one that has the
// chain, else the first one that had it. Its table is "place".
const inOneSpace = `WITH place AS (
		SELECT v.space, c.key IS NULL AS gone FROM unnest($2::text[]) WITH ORDINALITY AS v (space, rank)
		LEFT JOIN chains c ON c.space = v.space AND c.id = $1
		WHERE c.key IS NOT NULL OR EXISTS (SELECT 1 FROM versions h WHERE h.space = v.space AND h.id = $1)
		ORDER BY gone, v.rank LIMIT 1
	) `

// Versions implements library.ProtocolHistory.
func (p *Protocols) Versions(ctx context.Context, spaces []string, id string) ([]library.Version, error) {
	var versions []library.Version
	err := p.db.rows(ctx, inOneSpace+`
		SELECT c.revision, c.title, c.step_count, c.model, c.saved, false
		FROM place p JOIN chains c ON c.space = p.space AND c.id = $1
		UNION ALL
		SELECT h.revision, h.title, h.step_count, h.model, h.saved, h.outline IS NULL
		FROM place p JOIN versions h ON h.space = p.space AND h.id = $1
		ORDER BY 1 DESC`, []any{id, spaces}, func(scan func(...any) error) error {
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
	row := storedChain{revision: revision}
	err := p.db.row(ctx, inOneSpace+`
		SELECT c.outline, c.texts FROM place p JOIN chains c ON c.space = p.space AND c.id = $1 WHERE c.revision = $3
		UNION ALL
		SELECT h.outline, h.texts FROM place p JOIN versions h ON h.space = p.space AND h.id = $1
		WHERE h.revision = $3 AND h.outline IS NOT NULL`, []any{id, spaces, revision}, &row.outline, &row.texts)
	if err != nil {
		return protocol.Chain{}, orNotFound(err, "that version of protocol", id)
	}
	return p.db.chain(id, row)
}

// Former implements library.Protocols.
func (p *Protocols) Former(ctx context.Context, spaces []string, stepUUID string) (library.Former, error) {
	var row storedChain
	var found library.Former
	err := p.db.row(ctx, `SELECT coalesce(c.revision, h.revision), coalesce(c.outline, h.outline), c.key IS NULL
		FROM unnest($2::text[]) WITH ORDINALITY AS visible (space, rank)
		JOIN former f ON f.space = visible.space AND f.uuid = $1
		LEFT JOIN chains c ON c.space = f.space AND c.id = f.id
		LEFT JOIN versions h ON c.key IS NULL AND h.space = f.space AND h.id = f.id AND h.revision = (
			SELECT max(revision) FROM versions WHERE space = f.space AND id = f.id AND outline IS NOT NULL)
		ORDER BY visible.rank LIMIT 1`,
		[]any{stepUUID, spaces}, &row.revision, &row.outline, &found.Deleted)
	if err != nil {
		return library.Former{}, orNotFound(err, "step", stepUUID)
	}
	found.Chain, err = p.db.chain(stepUUID, row)
	return found, err
}
