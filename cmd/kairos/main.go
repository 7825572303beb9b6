// Command kairos is the KAIROS server and everything an operator does with it.
// Package cli below it has the commands, package app the wiring.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	_ "github.com/kairos-mcp/kairos/cmd/kairos/internal/gctune" // before everything else
)

// version is set by the build.
var version = "0.1.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := cli.Root(version).ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil:
	case interrupted:
		said := "interrupted"
		if !errors.Is(err, context.Canceled) {
			said = errorText(err)
		}
		fmt.Fprintln(os.Stderr, said)
		os.Exit(statusInterrupted)
	default:
		fmt.Fprintln(os.Stderr, errorText(err))
		os.Exit(output.ExitStatus(err))
	}
}

func errorText(err error) string {
	return (&output.Printer{W: os.Stderr}).Wrapped("Error: "+output.Message(err), "  ")
}

// statusInterrupted is what shells report for a program ended by SIGINT.
const statusInterrupted = 128 + int(syscall.SIGINT)
