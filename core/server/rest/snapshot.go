package rest

import (
	"context"
	"log/slog"
	"net/http"
)

// snapshots makes snapshots of the store of protocols.
type snapshots struct {
	take func(context.Context) (Snapshot, error) // nil: the store has none
	log  *slog.Logger
}

// serve makes a snapshot, where the store can make one.
func (s snapshots) serve(c *call) {
	const target = "qdrant"
	if s.take == nil {
		c.json(http.StatusAccepted, map[string]any{
			"status": "skipped", "target": target, "durationMs": c.ms(),
			"message": "This server makes no snapshots: back up the database. An index in Qdrant is made from it at any time.",
		})
		return
	}
	made, err := s.take(c.r.Context())
	if err != nil {
		s.log.ErrorContext(c.r.Context(), "no snapshot was made", "error", err)
		c.json(http.StatusBadGateway, map[string]any{"status": "failed", "target": target, "durationMs": c.ms(), "message": messageOf(err)})
		return
	}
	c.json(http.StatusOK, map[string]any{
		"status": "completed", "target": target, "snapshotName": made.Name, "filePath": made.Path, "bytesWritten": made.Bytes, "durationMs": c.ms(),
		"message": "The snapshot is made.",
	})
}
