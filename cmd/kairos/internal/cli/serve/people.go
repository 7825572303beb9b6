package serve

import (
	"fmt"
	"io"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
)

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
