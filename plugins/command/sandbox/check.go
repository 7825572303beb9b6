package sandbox

import (
	"context"
	"errors"
	"strings"
	"time"
)

// Check runs a command that looks around, and returns why commands cannot be run here,
// with the fix.
func (s Sandbox) Check(ctx context.Context, workspace string) (err error) {
	files, remove, err := s.Private()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := s.Hand(files); err != nil {
		return err
	}
	s.Time = 30 * time.Second
	res, err := s.Run(ctx, Command{Line: "echo works > here && cat here", Files: files, Workspace: workspace})
	switch {
	case err != nil:
		return err
	case res.ExitCode != 0 || res.Stdout.Text != "works\n":
		return errors.New("a command that writes to its copy fails in the sandbox: " + strings.TrimSpace(res.Stderr.Text))
	}
	return nil
}
