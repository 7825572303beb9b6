package tools

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/servers"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/socket"
	"github.com/kairos-mcp/kairos/internal/mcpclient"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// confined refuses a tool server with which the driver that calls it could not start.
func confined(at *session.Session, name string, s mcpclient.Server) error {
	c, err := at.Load()
	if err != nil {
		return err
	}
	b, err := mcpclient.File{Servers: map[string]mcpclient.Server{name: s}}.Bytes()
	if err != nil {
		return err
	}
	if err := app.CheckTools(c, at.File, b); err != nil {
		return fmt.Errorf("the server %s would not start beside KAIROS: %w. A tool server works in the folder in which it is added, which is %s: "+
			"add it in a folder that has nothing of KAIROS, and give it none of KAIROS's files", name, err, s.Dir)
	}
	return nil
}

// once refuses a server that lists two tools of one name: nobody could tell which is called.
func once(found []mcpclient.Tool) error {
	names := map[string]bool{}
	for _, t := range found {
		if names[t.Name] {
			return fmt.Errorf("the server lists two tools with the name %q, and nobody could tell which one is called: nothing was added; its author has to rename one", t.Name)
		}
		names[t.Name] = true
	}
	return nil
}

// shared says which tools another server has, too, and how a challenge names the one that
// it means.
func shared(f mcpclient.File, name string, found []mcpclient.Tool) string {
	var b strings.Builder
	for _, other := range f.Names() {
		if other == name {
			continue
		}
		var both []string
		for _, t := range found {
			if _, there := f.Servers[other].Tools[t.Name]; there {
				both = append(both, plain.Line(t.Name))
			}
		}
		if len(both) > 0 {
			slices.Sort(both)
			fmt.Fprintf(&b, "The server %s has %s, too: name the one that is meant in the challenge, as %s/%s or %s/%s\n",
				other, strings.Join(both, ", "), name, both[0], other, both[0])
		}
	}
	return b.String()
}

// tellTime is how long running servers may take to know the tool servers anew.
const tellTime = time.Minute

// tell makes running servers know the tool servers anew.
func tell(cmd *cobra.Command, at *session.Session) error {
	var choice servers.Choice
	c := servers.Look(*at, cmd.ErrOrStderr())
	return choice.WithMaybe(cmd, c, func(found []socket.Found) error {
		ctx, cancel := context.WithTimeout(cmd.Context(), tellTime)
		defer cancel()
		var errs []error
		p := &output.Printer{W: cmd.OutOrStdout()}
		for _, s := range c.OfDatabase(found) {
			if _, err := operations.ReloadDrivers.Call(ctx, s, operations.ReloadRequest{Drivers: []string{mcpclient.DriverName}}); err != nil {
				errs = append(errs, fmt.Errorf("server %d keeps the tools from before: %w", s.PID, err))
				continue
			}
			p.Printf("server %d knows it\n", s.PID)
		}
		return errors.Join(append(errs, p.Err)...)
	})
}
