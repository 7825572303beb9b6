package tables

import (
	"time"

	"github.com/kairos-mcp/kairos/core/store/record"
)

// Current is the stored version of a chain; key 0: none.
type Current struct {
	Key, Revision    int64
	Space, ID, Title string
}

func stored(tx Transaction, space, id string) (Current, error) {
	c := Current{Space: space, ID: id}
	_, err := tx.Row(`SELECT key, revision, title FROM chains WHERE space = $1 AND id = $2`, []any{space, id},
		&c.Key, &c.Revision, &c.Title)
	return c, err
}

// MakeRoom moves the chain that r replaces into the history, and assigns the revision of r.
// remove removes what belongs to the chain.
func MakeRoom(tx Transaction, d *Dialect, r *record.Chain, remove func(Current) error) error {
	c := r.Chain
	have, err := stored(tx, c.Space, c.ID)
	switch {
	case err != nil:
		return err
	case have.Revision == r.Replaces && have.Key != 0:
		r.Revision = have.Revision + 1
		return keep(tx, d, have, remove)
	case r.Replaces != 0:
		return record.Conflict(c.Title, have.Revision, r.Replaces)
	case have.Key != 0:
		return record.Duplicate(c)
	}
	// Deletions have revisions, too.
	_, err = tx.Row(`SELECT coalesce(max(revision), 0) + 1 FROM versions WHERE space = $1 AND id = $2`, []any{c.Space, c.ID}, &r.Revision)
	return err
}

// Delete moves a chain into the history and records that it was deleted. remove removes
// what belongs to the chain.
func Delete(tx Transaction, d *Dialect, space, id string, replaces int64, remove func(Current) error) error {
	have, err := stored(tx, space, id)
	if err != nil {
		return err
	}
	if have.Key == 0 {
		return record.NotFound("protocol", id)
	}
	if have.Revision != replaces {
		return record.Conflict(have.Title, have.Revision, replaces)
	}
	if err := keep(tx, d, have, remove); err != nil {
		return err
	}
	number, err := Numbers(tx, 1)
	if err != nil {
		return err
	}
	return tx.Exec(`INSERT INTO versions (space, id, revision, title, step_count, model, saved, changed)
		VALUES ($1, $2, $3, $4, 0, '', $5, $6)`, space, id, have.Revision+1, have.Title, time.Now().UnixNano(), number)
}

// keep moves a chain into the history, drops versions that are too old, and removes the
// chain once remove has removed what belongs to it.
func keep(tx Transaction, d *Dialect, c Current, remove func(Current) error) error {
	if err := tx.Exec(`INSERT INTO versions (space, id, revision, title, step_count, model, saved, outline, texts)
		SELECT space, id, revision, title, step_count, model, saved, outline, `+d.Texts+` FROM chains c WHERE key = $1`, c.Key); err != nil {
		return err
	}
	// The version that replaces it counts, too.
	if err := tx.Exec(`DELETE FROM versions WHERE space = $1 AND id = $2 AND revision <= $3`,
		c.Space, c.ID, c.Revision+1-record.VersionsKept); err != nil {
		return err
	}
	if err := remove(c); err != nil {
		return err
	}
	return tx.Exec(`DELETE FROM chains WHERE key = $1`, c.Key)
}
