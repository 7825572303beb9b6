// Command calendar-server is a small MCP server over stdio with people and
// their calendars. It is the other party in the calendar-appointment example:
// what the protocol demands is really looked up and really booked here.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/mark3labs/mcp-go/server"

	"github.com/kairos-mcp/kairos/examples/calendar-server/calendar"
)

func main() {
	if err := run(os.Args[1:]); err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "calendar-server:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("calendar-server", flag.ContinueOnError)
	state := flags.String("state", "", "JSON `file` that keeps the calendar; made when missing")
	now := flags.String("now", "", "pretend that it is this `time` (RFC 3339) and stays so")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *state == "" {
		return errors.New("--state FILE is required")
	}
	clock := time.Now
	if *now != "" {
		fixed, err := time.Parse(time.RFC3339, *now)
		if err != nil {
			return fmt.Errorf("--now: %w", err)
		}
		clock = func() time.Time { return fixed }
	}
	return server.ServeStdio(newServer(calendar.File{Path: *state}, clock))
}
