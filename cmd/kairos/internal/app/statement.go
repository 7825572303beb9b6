package app

import (
	"context"
	"fmt"
	"time"

	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/statement"
)

// Statement signs a statement of one of the caller's runs.
func (a *App) Statement(ctx context.Context, c access.Caller, id run.ID, withoutEvidence bool) ([]byte, error) {
	account, err := a.Engine.Archive.Account(ctx, c, id)
	if err != nil {
		return nil, err
	}
	s, beside, err := statement.Of(recordOf(account, a.Version))
	if err != nil {
		return nil, fmt.Errorf("the proof chain of run %s is broken, so nothing is signed: %w", id, err)
	}
	if withoutEvidence {
		beside = nil
	}
	key, err := a.Config.SigningKey()
	if err != nil {
		return nil, err
	}
	return statement.Sign(ctx, key, s, beside)
}

func recordOf(a archive.Account, version string) statement.Record {
	rec := statement.Record{Run: a.Run, Challenges: a.Challenges, Version: version, At: time.Now(),
		Revision: a.Protocol.Revision, Current: a.Protocol.Current, Stored: a.Protocol.Stored,
	}
	for _, step := range a.Chain.Steps {
		rec.Labels = append(rec.Labels, step.Label)
	}
	return rec
}
