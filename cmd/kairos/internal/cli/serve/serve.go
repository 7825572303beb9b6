// Package serve is the command that serves MCP and REST.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// Command is `kairos serve`.
func Command(at *session.Session) *cobra.Command {
	var by app.Transports
	cmd := &cobra.Command{
		Use:   "serve [--http [HOST:PORT]] [--stdio] [--page]",
		Short: "Serve MCP over stdin and stdout, or MCP and REST over HTTP",
		Long: "Serves MCP over stdin and stdout, or with --http over HTTP together with REST and health, for clients of 2025-11-25 and\n" +
			"older and of 2026-07-28. With --http and --stdio it serves both until stdin ends. Logs go to stderr. Over stdin and\n" +
			"stdout the server opens the database and starts drivers with the first tool call. With --page people of clients without\n" +
			"forms approve on a web page: it takes links only, and its port opens for the first of them.\n\n" +
			"A running server reloads the configuration, the tree and drivers.lock when the files change, on SIGHUP and on\n" +
			"`kairos reload`. If something is wrong, it logs the problem and continues unchanged.",
		Example: "  kairos serve\n  kairos serve --http\n  kairos serve --http 127.0.0.1:8080 --config kairos.yaml",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && !by.HTTP {
				return fmt.Errorf("serve takes no %q; the address to listen at goes behind --http", args[len(args)-1])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			at.NoteUnread(cmd)
			at.LogLevel = ""
			if len(args) == 1 {
				by.Address = args[0]
			}
			by.Stdio = by.Stdio || !by.HTTP
			at.OverHTTP, at.Measured, at.Creates = by.Override, by.HTTP, true
			if !by.Stdio {
				at.Stdout = os.Stdout
			}
			err := at.With(cmd.Context(), func(ctx context.Context, a *app.App) error {
				if err := app.CheckListen(a.Config, by, at.Dev); err != nil {
					return err
				}
				sayDev(*at, cmd.ErrOrStderr(), a.Config)
				if watched(cmd.InOrStdin(), cmd.ErrOrStderr(), by) {
					if err := sayServing(cmd.ErrOrStderr(), a, by); err != nil {
						return err
					}
				}
				return app.Serve(ctx, a, by, strings.Join(files.Absolute(at.File), ""), cmd.ErrOrStderr())
			})
			if cmd.Context().Err() != nil && errors.Is(err, context.Canceled) {
				return nil // a signal is how a server is stopped
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&at.Dev, "dev", false, session.DevHelp)
	cmd.Flags().Var(&httpFlag{&by}, "http", "serve HTTP, at HOST:PORT if given, else at http.listen (127.0.0.1:3300)")
	cmd.Flags().Lookup("http").NoOptDefVal = "true"
	cmd.Flags().BoolVar(&at.Files, "files", false, "work in the space of the files that kairos run plays")
	cmd.Flags().StringVar(&at.Workspace, "workspace", "", "folder on a copy of which commands run")
	for _, of := range []string{"files", "workspace"} { // kairos run gives them to the server that it starts
		_ = cmd.Flags().MarkHidden(of) // the flags are there
	}
	cmd.Flags().BoolVar(&by.Stdio, "stdio", false, "serve stdin and stdout as well")
	cmd.Flags().BoolVar(&by.Page, "page", false, "over stdin and stdout: open an approval page on a free loopback port for the first link (with --http the main port has it)")
	cmd.Flags().BoolVar(&by.Insecure, "insecure", false, "listen beyond loopback without authentication or TLS")
	return cmd
}

// httpFlag is --http, which may stand alone, have an address, or be false.
type httpFlag struct{ by *app.Transports }

func (f *httpFlag) String() string { return "" }

func (f *httpFlag) Type() string { return "[host:port]" }

func (f *httpFlag) Set(v string) error {
	on, err := strconv.ParseBool(v)
	f.by.HTTP, f.by.Address = err != nil || on, ""
	if err != nil {
		f.by.Address = v
	}
	return nil
}

// sayDev names what dev mode relaxes.
func sayDev(s session.Session, to io.Writer, c config.Config) {
	attached := os.Getenv(driverrpc.AttachEnv)
	if !s.Dev {
		if attached != "" {
			fmt.Fprintf(to, "kairos: %s is set and means nothing without --dev\n", driverrpc.AttachEnv)
		}
		return
	}
	const line = "************************************************************************"
	fmt.Fprintf(to, "%s\n  DEV MODE: for authors of drivers only, never for production\n"+
		"  - drivers.lock is not read: every kairos-driver-* in\n    %s\n    runs as it is, whatever its bytes\n"+
		"  - binaries that change there are taken up at once\n", line, c.Drivers.Dir)
	if attached != "" {
		fmt.Fprintf(to, "  - running processes stand in for drivers: %s\n", attached)
	}
	fmt.Fprintln(to, line)
}

// sayServing tells a person at the terminal what is served and how a client
// finds it. A client that starts the server reads none of it.
func sayServing(to io.Writer, a *app.App, by app.Transports) error {
	lock, err := a.Config.ReadLock()
	if err != nil {
		return err
	}
	fmt.Fprintf(to, "kairos %s\n  database  %s\n  drivers   %d of %s\n", a.Version, a.Config.Database, len(lock.Drivers), a.Config.Drivers.Dir)
	connect := "kairos connect CLIENT --http"
	if !by.HTTP {
		fmt.Fprintf(to, "  waiting for an MCP client on standard input: clients start this program themselves\n")
		connect = "kairos connect CLIENT"
	}
	fmt.Fprintf(to, "  `%s` writes what a client needs; Ctrl-C stops the server\n", connect)
	return nil
}

// watched reports whether a person watches the server. With standard input and
// output, they have typed the command themselves only if they are there, too.
func watched(in, log any, by app.Transports) bool {
	return output.IsTerminal(log) && (by.HTTP || output.IsTerminal(in))
}
