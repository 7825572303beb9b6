// Package session is what all commands share: the configuration to work on, and
// the server or the local database that answers the nine calls of agents.
package session

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/api/client"
	"github.com/kairos-mcp/kairos/core/decision"
	"github.com/kairos-mcp/kairos/core/server/operations"
	"github.com/kairos-mcp/kairos/core/server/socket"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/sdk/driverrpc"
)

// DevHelp is the help of --dev.
const DevHelp = "for authors of drivers: run the drivers of the folder as they are, without drivers.lock, and those that " +
	driverrpc.AttachEnv + " names; never for production"

// Environment of the commands that can ask a server.
const (
	ServerEnv = "KAIROS_API_URL"
	TokenEnv  = "KAIROS_BEARER_TOKEN"
)

// Session is what the flags of every command say: the configuration to work on,
// or the server to ask instead.
type Session struct {
	app.Options
	// URL is the server that calls are sent to. If it is empty, see Server.
	URL string
}

// Server is the address of the server to ask. If it is empty this process answers.
// What is said on the command line beats the environment, a database too.
func (s Session) Server() string {
	if s.URL != "" || s.Database != "" {
		return s.URL
	}
	return os.Getenv(ServerEnv)
}

// Unread says that this folder has a configuration file that no flag names. Empty: it has none,
// or one is named.
func (s Session) Unread() string {
	const usual = "kairos.yaml"
	if info, err := os.Stat(usual); s.File != "" || err != nil || !info.Mode().IsRegular() {
		return ""
	}
	return "the file " + usual + " in this folder is not read: give --config " + usual + ", or set KAIROS_CONFIG"
}

// NoteUnread prints that, for the commands of operators.
func (s Session) NoteUnread(cmd *cobra.Command) {
	if said := s.Unread(); said != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "note: %s\n", said)
	}
}

// Creating is the session of a command that makes the database where there is none.
func (s Session) Creating() Session {
	s.Creates = true
	return s
}

// OnServer reports whether --db of the session is the address of a database server.
func OnServer(s Session) bool {
	d := config.Database(s.Database)
	return d.Understand() == nil && d.Postgres()
}

// asksServers is the annotation of the commands that --url means something to.
const asksServers = "kairos/asks-servers"

// AsksServers marks those commands.
var AsksServers = map[string]string{asksServers: "yes"}

// staysLocal is the annotation of the commands that people may expect to ask a
// server.
const staysLocal = "kairos/stays-local"

// StaysLocal marks such a command and says why it does not.
func StaysLocal(why string) map[string]string { return map[string]string{staysLocal: why} }

// MayAsk reports whether --url means something to the command, or to one below it.
func MayAsk(cmd *cobra.Command) bool {
	return cmd.Annotations[asksServers] != "" || slices.ContainsFunc(cmd.Commands(), MayAsk)
}

// CheckServer refuses --url where nobody would ask the server, rather than
// answer from another database than the one that is meant.
func (s Session) CheckServer(cmd *cobra.Command) error {
	if name := emptyFlag(cmd); name != "" {
		return fmt.Errorf("--%s is empty: is a variable behind it not set? Leave --%[1]s out for the default", name)
	}
	if s.URL == "" {
		if s.Server() != "" && cmd.Annotations[asksServers] == "" && onStoredProtocols[topCommand(cmd)] {
			fmt.Fprintf(cmd.ErrOrStderr(), "note: %s works on the local database, not on the server of %s\n", cmd.CommandPath(), ServerEnv)
		}
		return nil
	}
	if why := cmd.Annotations[staysLocal]; why != "" {
		return fmt.Errorf("leave --url out of %s: %s", cmd.CommandPath(), why)
	}
	if cmd.Annotations[asksServers] == "" {
		return fmt.Errorf("%s works on the local database and configuration only: leave --url out", cmd.CommandPath())
	}
	if s.Database != "" {
		return fmt.Errorf("--db and --url exclude each other: one names the local database, the other a server")
	}
	return nil
}

// emptyFlag names a flag whose text is empty; empty: there is none. A variable of the shell that is
// not set leaves nothing, and the default may mean more: every run, or any key.
func emptyFlag(cmd *cobra.Command) (name string) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if f.Value.Type() == "string" && strings.TrimSpace(f.Value.String()) == "" {
			name = f.Name
		}
	})
	return name
}

// onStoredProtocols are the commands that people could take for those of a server.
var onStoredProtocols = map[string]bool{"protocols": true, "import": true, "runs": true, "run": true}

// topCommand is the name of the command right below the program.
func topCommand(cmd *cobra.Command) string {
	if path := strings.Fields(cmd.CommandPath()); len(path) > 1 {
		return path[1]
	}
	return ""
}

// Operator is who uses this machine, as the machine says.
func Operator() string {
	if u, err := user.Current(); err == nil && u.Username != "" {
		return fmt.Sprintf("%s (command line)", u.Username)
	}
	return "the command line"
}

// operator returns a client for calls of operators through the socket of the server at the
// address, if it is a server of this user on this machine; false: it is not.
func (s Session) operator(ctx context.Context, address string) (socket.Client, bool, error) {
	at, err := url.Parse(strings.TrimSpace(address)) // as client.New does
	if err != nil {
		return socket.Client{}, false, fmt.Errorf("the address of the server: %w", err)
	}
	c, err := s.Load()
	if err != nil {
		c = s.Salvage() // the server has its own configuration
	}
	own, ok := app.ServerAt(ctx, c, at)
	return own, ok, nil
}

// WithTools runs do with what replies to calls of tools and operations: the
// server, else the local database.
func (s Session) WithTools(ctx context.Context, do func(context.Context, api.Transport) error) error {
	if address := s.Server(); address != "" {
		client, err := client.New(address, client.Token(os.Getenv(TokenEnv)), nil)
		if err != nil {
			return err
		}
		return do(ctx, server{client, address, s})
	}
	return s.With(ctx, func(ctx context.Context, a *app.App) error { return do(ctx, Local(a)) })
}

// With is that of the options for commands that use the database. One that makes none
// says so before it does anything.
func (s Session) With(ctx context.Context, do func(context.Context, *app.App) error) error {
	if c, err := s.Load(); err == nil && !s.Creates && !app.DatabaseExists(c.Database) {
		return app.NoDatabase(c.Database)
	}
	return s.Options.With(ctx, do)
}

// Local replies to calls from the local database.
func Local(a *app.App) api.Transport { return local{app: a} }

// server replies to calls over REST.
type server struct {
	*client.Client
	address string
	session Session
}

// Call implements api.Transport. The call of an operator goes through the socket of a server
// of this machine, unless the environment has a token.
func (s server) Call(ctx context.Context, tool api.Declaration, arguments json.RawMessage) (json.RawMessage, error) {
	if _, ok := operations.Named(tool.Name); ok && os.Getenv(TokenEnv) == "" {
		own, ok, err := s.session.operator(ctx, s.address)
		if err != nil {
			return nil, err
		}
		if ok {
			defer own.Close()
			return own.Call(ctx, tool, arguments)
		}
	}
	return s.Client.Call(ctx, tool, arguments)
}

// local replies to calls in this process.
type local struct{ app *app.App }

// Call implements api.Transport. A command declares no capability of a client.
func (l local) Call(ctx context.Context, tool api.Declaration, arguments json.RawMessage) (json.RawMessage, error) {
	caller := l.app.Caller()
	if operation, ok := operations.Named(tool.Name); ok {
		if operation.OfRuns {
			caller = l.app.RunCaller()
		}
		reply, err := operation.Reply(ctx, l.app.Operations(), caller, arguments)
		if err != nil {
			return nil, err
		}
		return api.Encode(reply, "")
	}
	row, err := toolset.Named(tool.Name)
	if err != nil {
		return nil, err
	}
	var named struct {
		URI string `json:"uri"`
	}
	if json.Unmarshal(arguments, &named) == nil && named.URI != "" {
		caller = l.app.RunCaller() // a step of a run
	}
	reply, err := row.Unasked(ctx, toolset.UseCases{Runs: l.app.Engine.Runs, Library: l.app.Engine.Library}, caller, arguments)
	if err != nil {
		return nil, err
	}
	return api.Encode(reply, "")
}

// Tree compiles the tree of a file, or of an empty one the configured tree.
func (s Session) Tree(file string) (*decision.Tree, error) {
	c, err := s.Load()
	if err != nil {
		return nil, err
	}
	if file != "" {
		c.Tree = file
	}
	return c.CompileTree()
}
