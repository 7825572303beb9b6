package session

import (
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/app"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
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

// OnServer reports whether --db is the address of a database server.
func (s Session) OnServer() bool { return config.Database(s.Database).Postgres() }

// asksServers is the annotation of the commands that --url means something to.
const asksServers = "kairos/asks-servers"

// AsksServers marks those commands.
var AsksServers = map[string]string{asksServers: "yes"}

// staysLocal is the annotation of the commands that people may expect to ask a
// server.
const staysLocal = "kairos/stays-local"

// StaysLocal marks such a command and says why it does not.
func StaysLocal(why string) map[string]string { return map[string]string{staysLocal: why} }

// CheckServer refuses --url where nobody would ask the server, rather than
// answer from another database than the one that is meant.
func (s Session) CheckServer(cmd *cobra.Command) error {
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

// onStoredProtocols are the commands that people could take for those of a server.
var onStoredProtocols = map[string]bool{"export": true, "import": true, "runs": true, "run": true}

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
