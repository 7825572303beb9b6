package signing

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/core/archive"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/statement"
)

// State signs a statement of a run.
func State(ctx context.Context, a *app.App, id run.ID, withoutEvidence bool) ([]byte, error) {
	account, err := a.Engine.Account(ctx, a.RunCaller(), id)
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
	rec := statement.Record{Run: a.Run, Challenges: a.Challenges, Version: version, At: time.Now()}
	for _, step := range a.Chain.Steps {
		rec.Labels = append(rec.Labels, step.Label)
	}
	return rec
}

// Write writes to standard output, or a file that nobody sees half-written.
func Write(stdout io.Writer, path string, data []byte) (err error) {
	if path == "" || path == "-" {
		_, err := stdout.Write(data)
		return err
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("write the statement: %s is a directory", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), ".statement-*") // mode 0600: it holds evidence
	if err != nil {
		var inner *fs.PathError // which names a file that nobody asked for
		if errors.As(err, &inner) {
			err = inner.Err
		}
		return fmt.Errorf("write the statement into %s: %w", path, err)
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("write the statement: %w", errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}
