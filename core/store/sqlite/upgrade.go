package sqlite

import (
	"context"
	"time"

	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/store/record"
)

// mayUpgrade refuses to update the schema of a database for a program that only reads.
func mayUpgrade(d *database, have int) error {
	if !d.keepSchema || have == 0 || have >= schemaVersion {
		return nil
	}
	return record.OlderSchema(d.path, have, schemaVersion).
		WithHint("start a server of this version, which updates the database and keeps a backup beside it; until then use the program whose servers run")
}

// saveOlder copies a database of an earlier schema into a file beside it, because the
// programs of that version cannot use it once it is updated.
func saveOlder(ctx context.Context, d *database, have int) error {
	path := d.path + "." + time.Now().UTC().Format("20060102T150405.000Z") + ".backup"
	if _, err := d.backup(ctx, path); err != nil {
		return fault.Wrap(err, fault.StoreFailed, "database %s: its schema is version %d and has to be updated, but the backup before that failed: %v", d.path, have, err).
			WithHint("make room or remove what is in the way, then start again; nothing was changed")
	}
	d.log.WarnContext(ctx, "the schema of the database is updated: programs of the earlier version cannot use it any more",
		"path", d.path, "from", have, "to", schemaVersion, "backup", path)
	return nil
}
