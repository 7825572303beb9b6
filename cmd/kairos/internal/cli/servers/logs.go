package servers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/core/server/socket"
)

// followEvery is how often a log that is followed is read.
const followEvery = 250 * time.Millisecond

// LogPrinter prints the lines of one or several servers. It is safe for concurrent use.
type LogPrinter struct {
	format *output.Format
	many   bool

	mu sync.Mutex // guards to
	to io.Writer
}

// NewLogPrinter returns a printer of the logs of the servers.
func NewLogPrinter(format *output.Format, to io.Writer, found []socket.Found) *LogPrinter {
	return &LogPrinter{format: format, many: len(found) > 1, to: to}
}

// Print prints a line of a server: for people its text, for programs the item.
func (l *LogPrinter) Print(f socket.Found, item any, text string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.format.Item(l.to, item, func(p *output.Printer) {
		if l.many {
			p.Printf("[%d] ", f.PID)
		}
		p.Printf("%s\n", text)
	})
}

// ReadLogs calls read for every server at a time, with the position behind the lines that
// it read before: once, or with follow again and again until ctx ends.
func ReadLogs(ctx context.Context, found []socket.Found, follow bool, read func(ctx context.Context, f socket.Found, after int) (next int, err error)) error {
	errs := make([]error, len(found))
	var wg sync.WaitGroup
	for i, f := range found {
		wg.Go(func() { errs[i] = readLog(ctx, f, follow, read) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

func readLog(ctx context.Context, f socket.Found, follow bool, read func(ctx context.Context, f socket.Found, after int) (next int, err error)) error {
	pause := time.NewTicker(followEvery)
	defer pause.Stop()
	for after := 0; ; {
		call, cancel := context.WithTimeout(ctx, callTime)
		next, err := read(call, f, after)
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
