package sqlite

import (
	"context"
	"database/sql"
	"time"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/core/store/record"
)

func now() int64 { return time.Now().UnixNano() }

// keepVersion copies the stored chain into the history, and drops versions that
// are too old.
func keepVersion(tx *transaction, key int64) error {
	if err := tx.exec(`INSERT INTO versions (space, id, revision, title, step_count, model, saved, outline, texts)
		SELECT space, id, revision, title, step_count, model, saved, outline, texts
		FROM chains JOIN texts ON chain = key WHERE key = ?`, key); err != nil {
		return err
	}
	// The version that replaces it counts, too.
	return tx.exec(`DELETE FROM versions WHERE (space, id) = (SELECT space, id FROM chains WHERE key = ?1)
		AND revision <= (SELECT revision FROM chains WHERE key = ?1) + 1 - ?2`, key, record.VersionsKept)
}

func recordDeletion(tx *transaction, space, id string, c current) error {
	return tx.exec(`INSERT INTO versions (space, id, revision, title, step_count, model, saved)
		VALUES (?, ?, ?, ?, 0, '', ?)`, space, id, c.revision+1, c.title, now())
}

// lastRevision is the newest revision in the history, or 0 if there is none.
func lastRevision(tx *transaction, space, id string) (int64, error) {
	var last int64
	_, err := tx.row(`SELECT coalesce(max(revision), 0) FROM versions WHERE space = ? AND id = ?`, []any{space, id}, &last)
	return last, err
}

// inOneSpace finds the space whose history is read: the first one that has the
// chain, else the first one that had it. Its table is "place".
const inOneSpace = `WITH visible AS (SELECT key AS rank, value AS space FROM json_each(?2)),
	place AS (
		SELECT v.space, c.key IS NULL AS gone FROM visible v LEFT JOIN chains c ON c.space = v.space AND c.id = ?1
		WHERE c.key IS NOT NULL OR EXISTS (SELECT 1 FROM versions h WHERE h.space = v.space AND h.id = ?1)
		ORDER BY gone, v.rank LIMIT 1
	) `

// Versions implements library.ProtocolHistory.
func (p *Protocols) Versions(ctx context.Context, spaces []string, id string) ([]library.Version, error) {
	var versions []library.Version
	err := p.db.rows(ctx, inOneSpace+`
		SELECT c.revision, c.title, c.step_count, c.model, c.saved, false
		FROM place p JOIN chains c ON c.space = p.space AND c.id = ?1
		UNION ALL
		SELECT h.revision, h.title, h.step_count, h.model, h.saved, h.outline IS NULL
		FROM place p JOIN versions h ON h.space = p.space AND h.id = ?1
		ORDER BY 1 DESC`, []any{id, list(spaces)}, func(scan func(...any) error) error {
		var v library.Version
		var saved int64
		if err := scan(&v.Revision, &v.Title, &v.StepCount, &v.ModelID, &saved, &v.Deleted); err != nil {
			return err
		}
		v.SavedAt = timeOf(saved)
		versions = append(versions, v)
		return nil
	})
	if err == nil && len(versions) == 0 {
		err = notFound("protocol", id)
	}
	return versions, err
}

// Version implements library.ProtocolHistory.
func (p *Protocols) Version(ctx context.Context, spaces []string, id string, revision int64) (protocol.Chain, error) {
	row := storedChain{revision: revision}
	err := p.db.row(ctx, inOneSpace+`
		SELECT c.outline, t.texts FROM place p JOIN chains c ON c.space = p.space AND c.id = ?1 JOIN texts t ON t.chain = c.key
		WHERE c.revision = ?3
		UNION ALL
		SELECT h.outline, h.texts FROM place p JOIN versions h ON h.space = p.space AND h.id = ?1
		WHERE h.revision = ?3 AND h.outline IS NOT NULL`, []any{id, list(spaces), revision}, &row.outline, &row.texts)
	if err != nil {
		return protocol.Chain{}, orNotFound(err, "that version of protocol", id)
	}
	return p.db.chain(id, row)
}

// Former implements library.Protocols.
func (p *Protocols) Former(ctx context.Context, spaces []string, stepUUID string) (library.Former, error) {
	var row storedChain
	var found library.Former
	var outlined sql.NullBool
	err := p.db.row(ctx, `SELECT coalesce(c.revision, h.revision), coalesce(c.outline, h.outline), c.key IS NULL, c.key IS NOT NULL
		FROM former f JOIN json_each(?2) visible ON visible.value = f.space
		LEFT JOIN chains c ON c.space = f.space AND c.id = f.id
		LEFT JOIN versions h ON c.key IS NULL AND h.key = (
			SELECT key FROM versions WHERE space = f.space AND id = f.id AND outline IS NOT NULL ORDER BY revision DESC LIMIT 1)
		WHERE f.uuid = ?1 ORDER BY visible.key LIMIT 1`,
		[]any{stepUUID, list(spaces)}, &row.revision, &row.outline, &found.Deleted, &outlined)
	if err != nil {
		return library.Former{}, orNotFound(err, "step", stepUUID)
	}
	c, err := p.db.chain(stepUUID, row)
	found.Chain = record.Outline(c)
	return found, err
}
