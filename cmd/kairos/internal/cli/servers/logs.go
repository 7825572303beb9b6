package servers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/socket"
)

// followEvery is how often a log that is followed is read.
const followEvery = 250 * time.Millisecond

// Logs are the flags of a command that prints the logs of servers.
type Logs struct {
	Choice
	follow bool
	lines  int
}

// AddTo gives a command the flags.
func (l *Logs) AddTo(cmd *cobra.Command) {
	l.Choice.AddTo(cmd)
	cmd.Flags().BoolVarP(&l.follow, "follow", "f", false, "print new lines until interrupted")
	cmd.Flags().IntVar(&l.lines, "lines", operations.DefaultLines, "how many of the last lines")
}

// Printed prints a line of a log: for people its text, for programs the item.
type Printed func(item any, text string) error

// Read calls read for every server at a time: once, or with --follow again and again until
// the command ends. It asks for the lines of the request, and returns the position behind them.
func (l *Logs) Read(cmd *cobra.Command, at *session.Session, out *output.Format,
	read func(ctx context.Context, f socket.Found, in operations.LogRequest, line Printed) (next int, err error),
) error {
	return l.Running(cmd, at, "the lines live with the server, whose stderr has them too", func(found []socket.Found) error {
		errs := make([]error, len(found))
		var wg sync.WaitGroup
		var mu sync.Mutex // guards standard output
		for i, f := range found {
			line := func(item any, text string) error {
				mu.Lock()
				defer mu.Unlock()
				return out.Item(cmd.OutOrStdout(), item, func(p *output.Printer) {
					if len(found) > 1 {
						p.Printf("[%d] ", f.PID)
					}
					p.Printf("%s\n", text)
				})
			}
			wg.Go(func() {
				errs[i] = readLog(cmd.Context(), f, l.follow, func(ctx context.Context, after int) (int, error) {
					return read(ctx, f, operations.LogRequest{Lines: l.lines, After: after}, line)
				})
			})
		}
		wg.Wait()
		return errors.Join(errs...)
	})
}

func readLog(ctx context.Context, f socket.Found, follow bool, read func(ctx context.Context, after int) (next int, err error)) error {
	pause := time.NewTicker(followEvery)
	defer pause.Stop()
	for after := 0; ; {
		call, cancel := context.WithTimeout(ctx, callTime)
		next, err := read(call, after)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil // interrupted, which is how following ends
		case err != nil && after > 0 && fault.CodeOf(err) == fault.ServerUnreachable:
			return fmt.Errorf("%s ended", Process(f))
		case err != nil || !follow:
			return err
		}
		after = next
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
	}
}
