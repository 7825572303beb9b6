package connect

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/config"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/internal/mcpclient"
)

// databaseEnv names the database where no flag does.
const databaseEnv = "KAIROS_DB"

// carried are the variables that an entry carries. A client passes few on by itself. Secrets
// stay where they are.
var carried = []string{"KAIROS_DRIVERS_DIR", "KAIROS_TREE"}

// elsewhere are the variables that a server over stdin and stdout does not need, or gets as a flag.
var elsewhere = []string{
	databaseEnv, "KAIROS_CONFIG", session.ServerEnv, session.TokenEnv, "KAIROS_DRIVER_ATTACH", "KAIROS_APP_SPACE_ID",
	"LOG_LEVEL", "LOG_FORMAT", "PORT", "METRICS_PORT", "INSTANCE_ID", "TRUSTED_PROXY_CIDRS",
}

// connectsAs is the entry of a client that starts this program, or reaches the one at an address.
func connectsAs(cmd *cobra.Command, at *session.Session, c client, to remote) (entry, error) {
	if to.url != "" {
		return c.entry(command{}, to)
	}
	start, err := thisProgram(at)
	if err != nil {
		return nil, err
	}
	noteUncarried(cmd)
	return c.entry(start, remote{})
}

// thisProgram is how clients start this server with the configuration at hand.
func thisProgram(at *session.Session) (command, error) {
	program, err := os.Executable()
	if err != nil {
		return command{}, fmt.Errorf("find the path of this program: %w", err)
	}
	database, err := databaseHere(at)
	if err != nil {
		return command{}, err
	}
	if at.File != "" {
		if _, err := files.Read(at.File); err != nil {
			return command{}, fmt.Errorf("no client would find the server with this configuration: %w", err)
		}
	}
	c := command{program: program}
	for _, named := range [][2]string{{"--config", at.File}, {"--db", database}} {
		for _, path := range files.Absolute(named[1]) { // clients start servers in any folder
			c.args = append(c.args, named[0], path)
		}
	}
	// The page opens only if somebody needs it: many clients show no forms, and others answer
	// them by themselves where nobody watches.
	c.args = append(c.args, "serve", "--page")
	for _, name := range carried {
		for _, path := range files.Absolute(os.Getenv(name)) {
			if c.env == nil {
				c.env = map[string]string{}
			}
			c.env[name] = path
		}
	}
	return c, nil
}

// databaseHere is the file of the database that this command works with; empty: the default,
// or that of the configuration file.
func databaseHere(at *session.Session) (string, error) {
	here, said := *at, "--db"
	if here.Database == "" {
		here.Database, said = strings.TrimSpace(os.Getenv(databaseEnv)), databaseEnv
	}
	if session.OnServer(here) {
		return "", fmt.Errorf("%s is the address of a PostgreSQL database, which may have a password: write it into a configuration file and use --config%s", said, unset(said))
	}
	path := config.Database(here.Database)
	if err := path.Understand(); err != nil {
		return "", fmt.Errorf("%s: %w", said, err)
	}
	return string(path), nil
}

// unset says what else is to be done where the variable says it.
func unset(said string) string {
	if said == databaseEnv {
		return ", and unset " + databaseEnv
	}
	return ""
}

// noteUncarried names the variables of this shell that a client's server does not get.
func noteUncarried(cmd *cobra.Command) {
	var names []string
	for _, name := range config.Variables() {
		if strings.TrimSpace(os.Getenv(name)) != "" && !slices.Contains(carried, name) && !slices.Contains(elsewhere, name) {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		output.Tell(cmd.ErrOrStderr(), "note: the client starts the server without %s of this shell: write the settings into a configuration file and use --config, "+
			"or add the variables to the entry yourself, where they stay\n", strings.Join(names, ", "))
	}
}

// tools starts or reaches the server as the client would, and lists its tools.
// What the server logs goes to log.
func tools(ctx context.Context, at connection, log io.Writer) (names []string, err error) {
	s := mcpclient.Server{URL: at.address}
	if at.program != "" {
		s = mcpclient.Server{Command: at.program, Args: at.args, Env: at.env}
		s.Dir, _ = os.UserHomeDir() // empty: this folder
	}
	o := mcpclient.Options{Environ: inherited(), Stderr: log}
	if at.bearer {
		token := strings.TrimSpace(os.Getenv(session.TokenEnv))
		if token == "" {
			return nil, fmt.Errorf("the entry takes a token from %s, which is not set in this shell", session.TokenEnv)
		}
		o.Headers = map[string]string{"Authorization": "Bearer " + token}
	}
	c, err := mcpclient.Open(ctx, serverName, s, o)
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }() // it was only asked
	listed, err := c.Tools(ctx)
	for _, t := range listed {
		names = append(names, t.Name)
	}
	slices.Sort(names)
	return names, err
}

func assignments(env map[string]string) (out []string) {
	for k, v := range env {
		out = append(out, k+"="+v)
	}
	return out
}

// inherited are the variables that the MCP SDKs pass on to servers. What else
// this shell has, a client may not have.
func inherited() []string {
	env := []string{}
	for _, key := range []string{"HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER", "APPDATA", "LOCALAPPDATA", "SYSTEMROOT", "TEMP", "USERPROFILE"} {
		if v, ok := os.LookupEnv(key); ok {
			env = append(env, key+"="+v)
		}
	}
	return env
}
