// Package connect is `kairos connect`: it writes the configuration with which an
// MCP client starts this server, or reaches one over HTTP, and checks it.
package connect

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/ask"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/internal/mcpclient"
)

// checkTime bounds --check: the server starts and lists its tools.
const checkTime = 30 * time.Second

// defaultURL is where `kairos serve --http` listens.
const defaultURL = "http://127.0.0.1:3300/mcp"

// flags of `kairos connect`.
type flags struct {
	at           remote
	file         string
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
			"the --config, --db, KAIROS_DB, KAIROS_DRIVERS_DIR and KAIROS_TREE of this command, and with an approval page (--page);\n" +
			"with --http it reaches a server that is running. Variables and settings that you added to the entry stay.\n\n" +
			"No token is written. At a server with an identity provider the client logs in itself; where the server has only tokens of\n" +
			"its own, --token-env has the client take one from KAIROS_BEARER_TOKEN.\n\n" +
			"--check starts or reaches the server as the client would, with the entry in the client's file if there is one, and\n" +
			"lists its tools. It asks before it starts another command that a file of this folder names. Without CLIENT the clients\n" +
			"and their files are listed.\n\n" +
			"Clients: " + strings.Join(names(), ", "),
		Example: "  kairos connect\n  kairos connect claude-code --write\n  kairos connect cursor --http http://127.0.0.1:3300/mcp\n" +
			"  kairos connect codex --http https://kairos.example.org --token-env --write\n" +
			"  kairos connect codex --check",
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 2 || len(args) == 2 && f.at.url != defaultURL {
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
				f.at.url = args[1]
			}
			if f.at, err = f.at.understood(cmd); err != nil {
				return err
			}
			c, err := clientNamed(args[0])
			if err != nil {
				return err
			}
			e, err := connectsAs(cmd, at, c, f.at)
			if err != nil {
				return err
			}
			return f.connect(cmd, c, cmp.Or(f.file, c.path(home, ".")), e)
		},
	}
	cmd.Flags().StringVar(&f.at.url, "http", "", "reach a running server at this URL instead of starting one ("+defaultURL+" if none is given)")
	cmd.Flags().Lookup("http").NoOptDefVal = defaultURL
	cmd.Flags().BoolVar(&f.at.tokenEnv, "token-env", false, "with --http: have the client send the token in its variable "+session.TokenEnv+", instead of a login")
	cmd.Flags().StringVar(&f.file, "file", "", "configuration file of the client, if it is not where the client looks by default")
	cmd.Flags().BoolVar(&f.write, "write", false, "change the client's file, and keep a copy of it")
	cmd.Flags().BoolVar(&f.check, "check", false, "start or reach the server as the client would, and list its tools")
	return cmd
}

// understood is where the server is, as the client needs it.
func (r remote) understood(cmd *cobra.Command) (remote, error) {
	if r.tokenEnv && r.url == "" {
		return r, errors.New("--token-env is for a server that runs: add --http and its URL")
	}
	var err error
	r.url, err = endpoint(cmd, r.url)
	return r, err
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

func (f flags) connect(cmd *cobra.Command, c client, path string, e entry) error {
	document, err := readDocument(path)
	if err != nil {
		return err
	}
	present, has, err := c.format.configured(document, c.servers)
	switch {
	case f.write: // which says what is wrong, and what to add
		if document, err = f.change(cmd, c, path, document, e.over(present)); err == nil {
			present, has, err = c.format.configured(document, c.servers)
		}
	case !f.check:
		return f.show(cmd, c, path, e)
	case err != nil:
		err = fmt.Errorf("%s: %w", path, err)
	}
	if err != nil || !f.check {
		return err
	}
	checked, err := e.connection()
	if err != nil {
		return err
	}
	if said := connectionOf(present); has && f.at.url != "" && said.address != checked.address {
		output.Tell(cmd.ErrOrStderr(), "note: %s connects to %s; what is checked is %s\n", path, said, checked)
	} else if has {
		if err := f.trusted(cmd, c, path, said.command, checked.command); err != nil {
			return err
		}
		checked = said
	}
	return check(cmd, c, checked)
}

// trusted asks before it starts a command that a file of the project names: the
// file may have come with the project, and what is in it is not a permission.
func (f flags) trusted(cmd *cobra.Command, c client, path string, present, own command) error {
	if !c.project || f.file != "" || present.program == "" || present.is(own) {
		return nil
	}
	p := &output.Printer{W: cmd.OutOrStdout()}
	p.Printf("%s starts another command than this program would write:\n  %s\n", path,
		strings.Join(append(slices.Sorted(slices.Values(assignments(present.env))), present.String()), " "))
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
func (f flags) show(cmd *cobra.Command, c client, path string, e entry) error {
	text, err := c.format.encode(c.servers, e.filled())
	if err != nil {
		return err
	}
	output.Tell(cmd.ErrOrStderr(), "For %s, put this into %s, or add --write to this command:\n\n", c.title, path)
	p := &output.Printer{W: cmd.OutOrStdout()}
	p.Verbatim(string(text))
	output.Tell(cmd.ErrOrStderr(), "\n%s\n", c.next(f.at))
	return p.Err
}

// change writes the entry and says what became of the one before. It returns the document.
func (f flags) change(cmd *cobra.Command, c client, path string, document []byte, to change) ([]byte, error) {
	changed, err := c.format.put(document, c.servers, to)
	if err != nil {
		text, _ := c.format.encode(c.servers, to.entry)
		return nil, fmt.Errorf("%s was not changed: %w\n  add this yourself:\n%s", path, err, text)
	}
	if bytes.Equal(changed, document) {
		output.Tell(cmd.OutOrStdout(), "%s already connects to this server. Nothing was changed.\n", path)
		return document, nil
	}
	backup, err := writeDocument(path, document, changed, time.Now())
	if err != nil {
		return nil, err
	}
	output.Tell(cmd.OutOrStdout(), "Wrote %s.\n", path)
	if backup != "" {
		output.Tell(cmd.OutOrStdout(), "The file before is %s.\n", backup)
	}
	before, had, err := c.format.configured(document, c.servers)
	if err != nil {
		return nil, err
	}
	after, _, err := c.format.configured(changed, c.servers)
	if err != nil {
		return nil, err
	}
	if had {
		sayWhatBecame(cmd, before, after)
	}
	output.Tell(cmd.OutOrStdout(), "%s\n", c.next(f.at))
	return changed, nil
}

// sayWhatBecame says what of the entry before stays and goes. Values may be secrets.
func sayWhatBecame(cmd *cobra.Command, before, after map[string]any) {
	if was := connectionOf(before); was.String() != connectionOf(after).String() {
		output.Tell(cmd.OutOrStdout(), "The entry before was: %s\n", was)
	}
	kept, lost := keptAndLost(before, after)
	if len(kept) > 0 {
		output.Tell(cmd.OutOrStdout(), "Kept of it: %s.\n", strings.Join(kept, ", "))
	}
	if len(lost) > 0 {
		output.Tell(cmd.OutOrStdout(), "No longer in it: %s.\n", strings.Join(lost, ", "))
	}
}

func check(cmd *cobra.Command, c client, at connection) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), checkTime)
	defer cancel()
	found, err := tools(ctx, at, cmd.ErrOrStderr())
	if errors.Is(err, mcpclient.ErrLogin) {
		return asked(ctx, cmd, c, at, err)
	}
	if err != nil {
		return fmt.Errorf("%w\n  the client would fail in the same way; it uses: %s", err, at)
	}
	output.Tell(cmd.OutOrStdout(), "The server answers with %s: %s.\n", output.Count(len(found), "tool"), strings.Join(found, ", "))
	return nil
}

// list shows which clients there are and which of them know this server.
func list(cmd *cobra.Command, home string) error {
	rows := [][]string{{"CLIENT", "FILE", "KAIROS"}}
	for _, c := range clients {
		path := c.path(home, ".")
		state := "-"
		if document, err := readDocument(path); err != nil {
			state = "not readable"
		} else if present, ok, err := c.format.configured(document, c.servers); err != nil {
			state = "not readable"
		} else if ok {
			state = connectionOf(present).String()
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
