// Package connect is `kairos connect`: it writes the configuration with which an
// MCP client starts this server, or reaches one over HTTP, and checks it.
package connect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/ask"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/files"
	"github.com/kairos-mcp/kairos/internal/mcpclient"
)

// checkTime bounds --check: the server starts and lists its tools.
const checkTime = 30 * time.Second

// defaultURL is where `kairos serve --http` listens.
const defaultURL = "http://127.0.0.1:3300/mcp"

// flags of `kairos connect`.
type flags struct {
	url, file    string
	write, check bool
}

// Command is `kairos connect`.
func Command(at *session.Session) *cobra.Command {
	var f flags
	cmd := &cobra.Command{
		Use:   "connect [CLIENT] [--http [URL]]",
		Short: "Write the configuration with which an MCP client finds this server",
		Long: "Prints what to put into the configuration of an MCP client, and with --write puts it there: everything else in the\n" +
			"file stays as it is, comments included, and a copy of the file before is kept. The client starts this program with\n" +
			"the --config, --db, KAIROS_DRIVERS_DIR and KAIROS_TREE of this command; with --http it reaches a server that is running.\n\n" +
			"--check starts or reaches the server as the client would, with the entry in the client's file if there is one, and\n" +
			"lists its tools. It asks before it starts another command that a file of this folder names. Without CLIENT the clients\n" +
			"and their files are listed.\n\n" +
			"Clients: " + strings.Join(names(), ", "),
		Example: "  kairos connect\n  kairos connect claude-code --write\n  kairos connect cursor --http http://127.0.0.1:3300/mcp\n" +
			"  kairos connect codex --check",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 2 || len(args) == 2 && f.url != defaultURL {
				return fmt.Errorf("connect takes no %q; it takes one client, and a URL after --http", args[len(args)-1])
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions(names(), cobra.ShellCompDirectiveNoFileComp),
		RunE: func(cmd *cobra.Command, args []string) error {
			home, err := os.UserHomeDir()
			if err != nil {
				return fmt.Errorf("find the home folder: %w", err)
			}
			if len(args) == 0 {
				return list(cmd, home)
			}
			if len(args) == 2 {
				f.url = args[1]
			}
			if f.url, err = endpoint(cmd, f.url); err != nil {
				return err
			}
			c, err := clientNamed(args[0])
			if err != nil {
				return err
			}
			start, err := thisProgram(at)
			if err != nil {
				return err
			}
			e, err := c.entry(start, f.url)
			if err != nil {
				return err
			}
			return f.connect(cmd, c, cmp.Or(f.file, c.path(home, ".")), e)
		},
	}
	cmd.Flags().StringVar(&f.url, "http", "", "reach a running server at this URL instead of starting one ("+defaultURL+" if none is given)")
	cmd.Flags().Lookup("http").NoOptDefVal = defaultURL
	cmd.Flags().StringVar(&f.file, "file", "", "configuration file of the client, if it is not where the client looks by default")
	cmd.Flags().BoolVar(&f.write, "write", false, "change the client's file, and keep a copy of it")
	cmd.Flags().BoolVar(&f.check, "check", false, "start or reach the server as the client would, and list its tools")
	return cmd
}

// endpoint is the URL of the MCP endpoint of a server whose address may be given without it.
func endpoint(cmd *cobra.Command, address string) (string, error) {
	if address == "" {
		return "", nil
	}
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return "", fmt.Errorf("%q is not the URL of a server: it looks like %s", address, defaultURL)
	}
	switch path := strings.TrimRight(u.Path, "/"); {
	case path == "":
		u.Path = mcpPath
		output.Tell(cmd.ErrOrStderr(), "note: the MCP endpoint of that server is %s, which is used\n", u)
	case !strings.HasSuffix(path, mcpPath):
		output.Tell(cmd.ErrOrStderr(), "warning: %s does not end in %s, where a KAIROS server has its MCP endpoint; is a proxy in front of it?\n", u, mcpPath)
	}
	return u.String(), nil
}

// mcpPath is the path of the MCP endpoint of a server.
const mcpPath = "/mcp"

// thisProgram is how clients start this server with the configuration at hand.
func thisProgram(at *session.Session) (command, error) {
	program, err := os.Executable()
	if err != nil {
		return command{}, fmt.Errorf("find the path of this program: %w", err)
	}
	if session.OnServer(*at) {
		return command{}, errors.New("--db is the address of a PostgreSQL database, which may have a password: write it into a configuration file and use --config")
	}
	if at.File != "" {
		if _, err := files.Read(at.File); err != nil {
			return command{}, fmt.Errorf("no client would find the server with this configuration: %w", err)
		}
	}
	c := command{program: program}
	for _, named := range [][2]string{{"--config", at.File}, {"--db", at.Database}} {
		for _, path := range files.Absolute(named[1]) { // clients start servers in any folder
			c.args = append(c.args, named[0], path)
		}
	}
	c.args = append(c.args, "serve")
	// A client passes few variables on. Secrets stay where they are.
	for _, name := range []string{"KAIROS_DRIVERS_DIR", "KAIROS_TREE"} {
		for _, path := range files.Absolute(os.Getenv(name)) {
			if c.env == nil { // as it is read from a client's file that sets none
				c.env = map[string]string{}
			}
			c.env[name] = path
		}
	}
	return c, nil
}

func (f flags) connect(cmd *cobra.Command, c client, path string, e entry) error {
	document, err := readDocument(path)
	if err != nil {
		return err
	}
	switch {
	case f.write:
		err = f.change(cmd, c, path, document, e)
	case !f.check:
		err = show(cmd, c, path, e)
	}
	if err != nil || !f.check {
		return err
	}
	if present, ok, err := c.format.configured(document, c.servers); !f.write && err != nil {
		return fmt.Errorf("%s: %w", path, err)
	} else if ok && f.url != "" && !reflect.DeepEqual(present, e) {
		output.Tell(cmd.ErrOrStderr(), "note: %s connects to %s; what is checked is %s\n", path, present, e)
	} else if ok && !f.write {
		if err := f.trusted(cmd, c, path, present, e); err != nil {
			return err
		}
		e = present
	}
	return check(cmd, e)
}

// trusted asks before it starts a command that a file of the project names: the
// file may have come with the project, and what is in it is not a permission.
func (f flags) trusted(cmd *cobra.Command, c client, path string, present, own entry) error {
	start, starts := present.started()
	if !c.project || f.file != "" || !starts || reflect.DeepEqual(present, own) {
		return nil
	}
	p := &output.Printer{W: cmd.OutOrStdout()}
	p.Printf("%s starts another command than this program would write:\n  %s\n", path,
		strings.Join(append(slices.Sorted(slices.Values(assignments(start.env))), present.String()), " "))
	if p.Err != nil {
		return p.Err
	}
	if !output.IsTerminal(cmd.InOrStdin()) {
		return fmt.Errorf("%s was not checked: its command was not started, because nobody can be asked here; read it and add --file %s, or replace it with --write", path, path)
	}
	yes, err := ask.Agreed(cmd, p, "The file belongs to this folder, and KAIROS has not checked it. Start the command?")
	if err == nil && !yes {
		err = fmt.Errorf("%s was not checked: its command was not started", path)
	}
	return err
}

// show prints what to write, so that it can be piped, and where, for people.
func show(cmd *cobra.Command, c client, path string, e entry) error {
	text, err := c.format.encode(c.servers, e)
	if err != nil {
		return err
	}
	output.Tell(cmd.ErrOrStderr(), "For %s, put this into %s, or add --write to this command:\n\n", c.title, path)
	p := &output.Printer{W: cmd.OutOrStdout()}
	p.Verbatim(string(text))
	output.Tell(cmd.ErrOrStderr(), "\n%s\n", c.then)
	return p.Err
}

func (f flags) change(cmd *cobra.Command, c client, path string, document []byte, e entry) error {
	changed, err := c.format.put(document, c.servers, e)
	if err != nil {
		text, _ := c.format.encode(c.servers, e)
		return fmt.Errorf("%s was not changed: %w\n  add this yourself:\n%s", path, err, text)
	}
	if bytes.Equal(changed, document) {
		output.Tell(cmd.OutOrStdout(), "%s already connects to this server. Nothing was changed.\n", path)
		return nil
	}
	backup, err := writeDocument(path, document, changed, time.Now())
	if err != nil {
		return err
	}
	output.Tell(cmd.OutOrStdout(), "Wrote %s.\n", path)
	if backup != "" {
		output.Tell(cmd.OutOrStdout(), "The file before is %s.\n", backup)
	}
	output.Tell(cmd.OutOrStdout(), "%s\n", c.then)
	return nil
}

func check(cmd *cobra.Command, e entry) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), checkTime)
	defer cancel()
	found, err := tools(ctx, e, cmd.ErrOrStderr())
	if err != nil {
		return fmt.Errorf("%w\n  the client would fail in the same way; it uses: %s", err, e)
	}
	output.Tell(cmd.OutOrStdout(), "The server answers with %s: %s.\n", output.Count(len(found), "tool"), strings.Join(found, ", "))
	return nil
}

// String is the command line or the address.
func (e entry) String() string {
	if c, ok := e.started(); ok {
		return strings.Join(append([]string{c.program}, c.args...), " ")
	}
	return e.address()
}

// list shows which clients there are and which of them know this server.
func list(cmd *cobra.Command, home string) error {
	rows := [][]string{{"CLIENT", "FILE", "KAIROS"}}
	for _, c := range clients {
		path := c.path(home, ".")
		state := "-"
		if document, err := readDocument(path); err != nil {
			state = "not readable"
		} else if e, ok, err := c.format.configured(document, c.servers); err != nil {
			state = "not readable"
		} else if ok {
			state = e.String()
		}
		rows = append(rows, []string{c.name, shortened(path, home), state})
	}
	p := &output.Printer{W: cmd.OutOrStdout()}
	p.Table(rows)
	return p.Err
}

func shortened(path, home string) string {
	if rest, ok := strings.CutPrefix(path, home+string(filepath.Separator)); ok {
		return filepath.Join("~", rest)
	}
	return path
}

// tools starts or reaches the server as the client would, and lists its tools.
// What the server logs goes to log.
func tools(ctx context.Context, e entry, log io.Writer) (names []string, err error) {
	s := mcpclient.Server{URL: e.address()}
	if start, ok := e.started(); ok {
		s = mcpclient.Server{Command: start.program, Args: start.args, Env: start.env}
		s.Dir, _ = os.UserHomeDir() // empty: this folder
	}
	c, err := mcpclient.Open(ctx, serverName, s, mcpclient.Options{Environ: inherited(), Stderr: log})
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
