// Command kairos is the KAIROS server and everything an operator does with it.
// This package is wiring: the only place that knows which store, which drivers
// and which transport make up a server.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"syscall"

	"github.com/spf13/cobra"

	_ "github.com/kairos-mcp/kairos/cmd/kairos/gctune" // before everything else
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// version is set by the build.
var version = "0.1.0-dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root(version).ExecuteContext(ctx)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil:
	case interrupted && errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "interrupted")
		os.Exit(statusInterrupted)
	default:
		fmt.Fprintln(os.Stderr, "Error: "+message(err))
		os.Exit(exitStatus(err))
	}
}

// statusInterrupted is what shells report for a program ended by SIGINT.
const statusInterrupted = 128 + int(syscall.SIGINT)

// exitStatus is 1 for an error that has none of its own.
func exitStatus(err error) int {
	var with withStatus
	if errors.As(err, &with) {
		return with.status
	}
	return 1
}

// message is what a person at a terminal can use of an error. Its first line is
// the program's; the others are indented, because a text that the error quotes
// may have lines that look like the program's.
func message(err error) string {
	text := err.Error()
	var f *fault.Error
	if errors.As(err, &f) && f.NextAction != "" {
		text += "\n  next: " + f.NextAction
	}
	return continuation.ReplaceAllString(plain.Text(text), "\n  $1")
}

var continuation = regexp.MustCompile(`\n([^ \n])`)

// root is the program with all its commands.
func root(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:           "kairos",
		Short:         "An MCP server that makes agents follow procedures step by step and prove each step",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	// What drivers start for one answer is no news; a server logs more.
	at := session{options: options{source: source{logLevel: "warn"}, version: version}}
	cmd.PersistentFlags().StringVar(&at.file, "config", os.Getenv("KAIROS_CONFIG"), "configuration file (kairos.yaml); also KAIROS_CONFIG")
	cmd.PersistentFlags().StringVar(&at.database, "db", "", "database file; also KAIROS_DB")
	cmd.PersistentFlags().StringVarP(&at.url, "url", "u", "", "ask this server instead of the local database; also "+serverEnv+", with a token from "+tokenEnv)
	cmd.PersistentPreRunE = func(cmd *cobra.Command, _ []string) error { return at.checkServer(cmd) }
	cmd.AddCommand(serveCommand(&at), runsCommand(&at), driverCommand(&at), treeCommand(&at))
	cmd.AddCommand(playCommands(&at)...)
	cmd.AddCommand(libraryCommands(&at)...)
	cmd.AddCommand(opsCommands(&at)...)
	explainUsage(cmd)
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf("%w\n  usage: %s; --help lists the flags", err, cmd.UseLine())
	})
	return cmd
}

// playCommands are the commands that execute protocols.
func playCommands(at *session) []*cobra.Command {
	return []*cobra.Command{runCommand(at), beginCommand(at), nextCommand(at), attestCommand(at)}
}

// libraryCommands are the commands that keep protocols.
func libraryCommands(at *session) []*cobra.Command {
	return []*cobra.Command{
		searchCommand(at), mintCommand(at), updateCommand(at), deleteCommand(at), dumpCommand(at), spacesCommand(at), lintCommand(at),
		exportCommand(at), importCommand(at), historyCommand(at), diffCommand(at), restoreCommand(at),
	}
}

// opsCommands are the commands that check an installation.
func opsCommands(at *session) []*cobra.Command {
	return []*cobra.Command{configCommand(at), schemaCommand(at), embeddingCommand(at), doctorCommand(at)}
}
