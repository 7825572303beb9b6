// Package tools has the commands about the MCP servers whose tools KAIROS calls
// itself.
package tools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/internal/mcpclient"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// localOnly: whoever adds programs that KAIROS starts is the person at its machine.
var localOnly = session.StaysLocal("tool servers are added on the server's own machine")

// startTime is how long a server may take to start and to list its tools.
const startTime = time.Minute

// Command is `kairos tools`.
func Command(at *session.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use: "tools", Short: "Add the MCP servers whose tools KAIROS calls itself",
		Long: `Adds, checks and removes MCP servers. KAIROS calls their tools for mcp steps of protocols that are accepted (kairos accept). You
decide for each tool whether it only reads or changes something; a change is approved each time, and made at most once.
What you accept is kept in tools.json beside the database: how a server is started, and what its tools take. Changed
tools are blocked until you accept them. The code of a server can change without anybody noticing.`,
		Example: "  kairos tools add calendar -- bin/calendar-server --state calendar.json\n  kairos tools check",
	}
	cmd.AddCommand(add(at), list(at), check(at), call(at), diff(at), accept(at), remove(at))
	return cmd
}

// read is the file with the servers.
func read(at *session.Session) (mcpclient.File, string, error) {
	c, err := at.Load()
	if err != nil {
		return mcpclient.File{}, "", err
	}
	b, err := files.Read(c.ToolsFile)
	if errors.Is(err, os.ErrNotExist) {
		err = nil
	}
	if err != nil {
		return mcpclient.File{}, "", err
	}
	f, err := mcpclient.Parse(b)
	if err != nil {
		return f, c.ToolsFile, fmt.Errorf("%s: %w; %s", c.ToolsFile, err, mcpclient.Fix(err))
	}
	return f, c.ToolsFile, nil
}

// change rewrites the file with the servers.
func change(path string, edit func(mcpclient.File) error) error {
	return files.Update(path, func(was []byte) ([]byte, error) {
		f, err := mcpclient.Parse(was)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if err := edit(f); err != nil {
			return nil, err
		}
		return f.Bytes()
	})
}

// addedServer is a server that was added.
func addedServer(f mcpclient.File, name string) (mcpclient.Server, error) {
	s, ok := f.Servers[name]
	if !ok {
		return s, fmt.Errorf("no server %q was added; there are: %s", name, strings.Join(append(f.Names(), "none")[:max(1, len(f.Names()))], ", "))
	}
	return s, nil
}

// listed starts the server and lists its tools: as a server of KAIROS starts it, if the driver
// for that is installed.
func listed(ctx context.Context, at *session.Session, name string, s mcpclient.Server) (tools []mcpclient.Tool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, startTime, fmt.Errorf("no answer within %s", startTime))
	defer cancel()
	if tools, installed, err := app.ToolsOf(ctx, at.Options, name, s, startTime); installed || err != nil {
		return tools, err
	}
	c, err := mcpclient.Open(ctx, name, s, mcpclient.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	return c.Tools(ctx)
}

func list(at *session.Session) *cobra.Command {
	out := new(output.Format)
	cmd := &cobra.Command{
		Use: "list", Short: "List the servers and their tools", Args: cobra.NoArgs, Annotations: localOnly,
		Example: "  kairos tools list\n  kairos tools list -o json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			f, _, err := read(at)
			if err != nil {
				return err
			}
			return out.Print(cmd.OutOrStdout(), f, func(p *output.Printer) {
				rows := [][]string{{"SERVER", "TOOL", "CLASS", "STARTED AS"}}
				for _, name := range f.Names() {
					s := f.Servers[name]
					for _, t := range sorted(s.Tools) {
						rows = append(rows, []string{name, plain.Line(t.Name), string(t.Class), output.Short(launch(s))})
					}
				}
				p.Rows(rows)
			})
		},
	}
	return out.AddTo(cmd)
}

// launch is how the server is started or reached.
func launch(s mcpclient.Server) string {
	if s.URL != "" {
		return s.URL
	}
	return strings.Join(append([]string{s.Command}, s.Args...), " ")
}

func sorted(pinned map[string]mcpclient.Pin) []mcpclient.Tool {
	var out []mcpclient.Tool
	for name, pin := range pinned {
		out = append(out, mcpclient.Tool{Name: name, Pin: pin})
	}
	slices.SortFunc(out, func(a, b mcpclient.Tool) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func remove(at *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "remove NAME", Short: "Remove a server", Args: cobra.ExactArgs(1), Annotations: localOnly,
		Example: "  kairos tools remove calendar",
		RunE: func(cmd *cobra.Command, args []string) error {
			f, path, err := read(at)
			if err != nil {
				return err
			}
			if _, err := addedServer(f, args[0]); err != nil {
				return err
			}
			if err := change(path, func(f mcpclient.File) error { delete(f.Servers, args[0]); return nil }); err != nil {
				return err
			}
			p := &output.Printer{W: cmd.OutOrStdout()}
			p.Printf("removed: %s\n", args[0])
			return errors.Join(p.Err, tell(cmd, at))
		},
	}
}

func call(at *session.Session) *cobra.Command {
	return &cobra.Command{
		Use: "call NAME TOOL [JSON]", Short: "Call a tool, to try it", Args: cobra.RangeArgs(2, 3), Annotations: localOnly,
		Long:    "Calls a tool of a server that was added, with arguments as a JSON object, and prints its result. No run records it.",
		Example: `  kairos tools call calendar find_user_by_name '{"names": ["Adam"]}'`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			f, _, err := read(at)
			if err != nil {
				return err
			}
			s, err := addedServer(f, args[0])
			if err != nil {
				return err
			}
			arguments := []byte("{}")
			if len(args) > 2 {
				arguments = []byte(args[2])
			}
			if !json.Valid(arguments) || !bytes.HasPrefix(bytes.TrimSpace(arguments), []byte{'{'}) {
				return fmt.Errorf(`the arguments must be a JSON object, such as {"names": ["Adam"]}, not %.80q; nothing was called`, arguments)
			}
			c, err := mcpclient.Open(cmd.Context(), args[0], s, mcpclient.Options{})
			if err != nil {
				return err
			}
			defer func() { err = errors.Join(err, c.Close()) }()
			res, err := c.Call(cmd.Context(), mcpclient.Call{Tool: args[1], Arguments: arguments})
			if err != nil {
				return err
			}
			p := &output.Printer{W: cmd.OutOrStdout()}
			p.Printf("%s\n", plain.Text(string(res.Value)))
			if !res.Success {
				return errors.Join(p.Err, fmt.Errorf("the tool %s says that it failed", args[1]))
			}
			return p.Err
		},
	}
}
