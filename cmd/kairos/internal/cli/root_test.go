package cli

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/access"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/api/client"
	"github.com/kairos-mcp/kairos/core/run"
	"github.com/kairos-mcp/kairos/core/server/mcp"
	"github.com/kairos-mcp/kairos/core/server/rest"
	"github.com/kairos-mcp/kairos/core/server/toolset"
	"github.com/kairos-mcp/kairos/core/statement"
)

func TestAStatementCannotDrawOnTheTerminal(t *testing.T) {
	title := "Release\x1b[2J\nsigned by the key you gave, 00\nverified: \u202eall"
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	s, _, err := statement.Of(statement.Record{
		Run: run.Run{
			ID: "0196f0a0-0000-7000-8000-000000000001", Principal: "local", ChainID: "chain", Title: title, Pin: strings.Repeat("ab", 32),
			StepCount: 1, State: run.Closed, Outcome: "success", CreatedAt: now, UpdatedAt: now,
		},
		Version: "1", At: now, Labels: []string{title},
	})
	if err != nil {
		t.Fatal(err)
	}
	data, err := statement.Sign(t.Context(), statement.NewKey(), s, nil)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "run.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd := Root("1")
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"runs", "verify", file})
	if err := cmd.ExecuteContext(t.Context()); err == nil {
		t.Error("a run without proofs is verified")
	}
	if strings.ContainsAny(out.String(), "\x1b\u202e") || strings.Contains(out.String(), "\nsigned by the key you gave") ||
		!strings.Contains(out.String(), "Release⟨U+001B⟩[2J signed by") || !strings.Contains(out.String(), "\nsigned by the key in the file") {
		t.Errorf("it prints\n%q", out.String())
	}
}

// verbs are those that summaries begin with: one for each thing that commands do.
var verbs = []string{
	"Abandon", "Accept", "Add", "Attest", "Begin", "Call", "Cancel", "Check", "Compare", "Copy", "Count", "Create", "Decide", "Delete", "Diagnose", "End", "Explain", "Export", "Generate", "Import", "Inspect",
	"Install", "List", "Move", "Print", "Redact", "Reload", "Remove", "Restore", "Resume", "Revoke", "Run", "Search", "Serve", "Show", "Store", "Submit", "Update", "Verify", "Write",
}

// allCommands are the commands below cmd that its help lists.
func allCommands(cmd *cobra.Command) []*cobra.Command {
	var all []*cobra.Command
	for _, below := range cmd.Commands() {
		if below.Hidden {
			continue
		}
		all = append(append(all, below), allCommands(below)...)
	}
	return all
}

func TestEveryCommandSaysWhatItDoesInOneLine(t *testing.T) {
	commands := allCommands(Root("1"))
	if len(commands) < 50 {
		t.Fatalf("there are %d commands, want them all", len(commands))
	}
	for _, c := range commands {
		verb, _, _ := strings.Cut(c.Short, " ")
		if !slices.Contains(verbs, strings.Trim(verb, ",")) {
			t.Errorf("%s: %q does not begin with one of the verbs", c.CommandPath(), c.Short)
		}
		if len(c.Short) > 72 || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: %q is not one short line without a full stop", c.CommandPath(), c.Short)
		}
		if c.Parent() == c.Root() && c.GroupID == "" {
			t.Errorf("%s is in no group of the help", c.CommandPath())
		}
	}
}

// The help of the program fits one screen. cobra's own commands, help and completion, do not
// count. What is hidden are the earlier commands that have another place in it.
func TestTheProgramHasFewCommands(t *testing.T) {
	const most = 26
	var names, hidden []string
	for _, c := range Root("1").Commands() {
		switch {
		case len(c.Aliases) > 0:
			t.Errorf("%s has aliases", c.Name())
		case c.Hidden:
			hidden = append(hidden, c.Name())
		case c.Name() != "help" && c.Name() != "completion":
			names = append(names, c.Name())
		}
	}
	if len(names) > most {
		t.Errorf("there are %d commands, want at most %d: %s", len(names), most, strings.Join(names, " "))
	}
	if want := []string{"attest", "begin", "delete", "next", "update"}; !slices.Equal(hidden, want) {
		t.Errorf("hidden are %q, want the earlier commands that are elsewhere now, %q", hidden, want)
	}
}

// Scripts for the earlier server's command line read what its commands print into a pipe.
func TestOnlyTheEarlierCommandsPrintMoreThanTextIntoAPipe(t *testing.T) {
	before := os.Stdout
	t.Cleanup(func() { os.Stdout = before })
	_, os.Stdout, _ = os.Pipe()
	t.Cleanup(func() { _ = os.Stdout.Close() })
	want := map[string]string{
		"search": "json", "begin": "json", "next": "md", "mint": "json", "update": "json", "delete": "json", "attest": "json",
	}
	got := map[string]string{}
	root := Root("1")
	for _, c := range append(allCommands(root), root.Commands()...) {
		if f := c.Flag("output"); f != nil && f.Value.String() != "text" {
			got[strings.TrimPrefix(c.CommandPath(), "kairos ")] = f.Value.String()
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Texts for agents name tools; people get the command that does the same.
func TestEveryToolHasACommand(t *testing.T) {
	for _, tool := range toolset.Names() {
		said := strings.Fields(strings.Trim(strings.TrimPrefix(output.Commands("call "+tool), "run "), "`"))
		found, rest, err := Root("1").Find(said[1:])
		if err != nil || len(rest) > 0 || found.Name() == "call" || found.HasSubCommands() {
			t.Errorf("%s is %q for people: %s, %v (%v)", tool, said, found.CommandPath(), rest, err)
		}
	}
}

// A command that is typed almost right is answered with the one that is meant.
func TestNearMisses(t *testing.T) {
	for name, tc := range map[string]struct{ typed, want string }{
		"command of a group":  {"dump", "did you mean `kairos protocols dump`? `kairos --help` lists them"},
		"earlier command":     {"db begin", "did you mean `kairos runs begin`? `kairos db --help` lists them"},
		"several groups":      {"history", "`kairos protocols history`"},
		"swapped letters":     {"sttaus", "did you mean `kairos status`?"},
		"within a group":      {"runs lst", "did you mean `kairos runs list`? `kairos runs --help` lists them"},
		"other group":         {"db restore", "did you mean `kairos protocols restore`?"},
		"version":             {"version", "`kairos --version`"},
		"nothing like it":     {"frobnicate", "unknown command \"frobnicate\" for \"kairos\"; `kairos --help` lists them"},
		"flag":                {"status --outptu json", "unknown flag: --outptu"},
		"a run that is empty": {"accept X --run= --yes", "--run is empty: is a variable behind it not set?"},
		"a key that is empty": {"runs verify X --key=", "--key is empty: is a variable behind it not set?"},
		"format":              {"runs list --json", "the flag for that is -o json"},
		"schema":              {"config schema drivers", "usage: kairos config schema [config|tree|challenge]"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := Root("1")
			cmd.SetArgs(strings.Fields(tc.typed))
			cmd.SetOut(io.Discard)
			if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("kairos %s: %v, want %s", tc.typed, err, tc.want)
			}
		})
	}
}

// word is a word of a command line, with quotes or without.
var word = regexp.MustCompile(`(?:'[^']*'|[^\s'])+`)

// Every terminal shows a help without breaking its lines, except those that people
// copy as they are.
func TestHelpFitsATerminal(t *testing.T) {
	for _, c := range append(allCommands(Root("1")), Root("1")) {
		var out strings.Builder
		c.SetOut(&out)
		if err := c.Help(); err != nil {
			t.Fatal(err)
		}
		_, after, found := strings.Cut(out.String(), "Examples:\n")
		if !found && c.GroupID != "" {
			t.Errorf("the help of %s has no examples:\n%s", c.CommandPath(), &out)
		}
		for line := range strings.Lines(strings.ReplaceAll(out.String(), strings.Split(after, "\n\n")[0], "")) {
			if n := utf8.RuneCountInString(strings.TrimSpace(line)); n > helpWidth && !strings.HasPrefix(line, "  kairos ") && !strings.HasPrefix(line, "  {") {
				t.Errorf("the help of %s has a line of %d characters: %s", c.CommandPath(), n, line)
			}
		}
	}
}

func TestHelpBreaksDescriptionsBelowTheirBeginning(t *testing.T) {
	text := "It shows\nall that\nthere is.\n\n  kairos  stays  as  it is\n\nFlags:\n  -o, --output FORMAT   text, json or yaml\n      --all             more"
	want := "It shows all that there is.\n\n  kairos  stays  as  it is\n\nFlags:\n  -o, --output FORMAT   text,\n                        json or\n                        yaml\n      --all             more"
	if got := fit(text, 32); got != want {
		t.Errorf("fit = %q, want %q", got, want)
	}
}

// Examples are what people copy: they name the command that they are about, or one
// below it, and its flags and arguments are taken.
func TestExamplesAreCommandsThatAreTaken(t *testing.T) {
	for _, c := range append(allCommands(Root("1")), Root("1")) {
		tried := false
		for line := range strings.Lines(c.Example) {
			line, _, _ = strings.Cut(strings.TrimSpace(line), " > ")
			line, _, _ = strings.Cut(line, " #")
			args, ours := strings.CutPrefix(line, "kairos ")
			if !ours {
				continue
			}
			var words []string
			for _, w := range word.FindAllString(args, -1) {
				words = append(words, strings.ReplaceAll(w, "'", ""))
			}
			// Flags keep what was parsed, so that each example needs commands of its own.
			fresh := Root("1")
			found, rest, err := fresh.Find(words)
			if err != nil || found.HasSubCommands() && !found.Runnable() || !strings.HasPrefix(found.CommandPath()+" ", c.CommandPath()+" ") {
				t.Errorf("%s: the example %q is one of %v (%v)", c.CommandPath(), line, found.CommandPath(), err)
				continue
			}
			if err := found.ParseFlags(rest); err != nil {
				t.Errorf("%s: the example %q is refused: %v", c.CommandPath(), line, err)
				continue
			}
			if err := found.ValidateArgs(found.Flags().Args()); err != nil {
				t.Errorf("%s: the example %q is refused: %v", c.CommandPath(), line, err)
			}
			tried = true
		}
		if !tried {
			t.Errorf("%s has no example that works", c.CommandPath())
		}
	}
}

// A command that works by itself and has others below it says how it is used, too.
func TestHelpSaysHowACommandAboveOthersIsUsed(t *testing.T) {
	for name, want := range map[string]string{
		"accept": "Usage:\n  kairos accept PROTOCOL [flags]\n  kairos accept [command]\n", "runs": "Usage:\n  kairos runs [command]\n",
	} {
		var out strings.Builder
		cmd := Root("1")
		cmd.SetOut(&out)
		cmd.SetArgs([]string{name, "--help"})
		if err := cmd.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), want) {
			t.Errorf("kairos %s --help (%v) prints\n%s\nwant %s", name, err, &out, want)
		}
	}
}

var update = flag.Bool("update", false, "write the table of commands into the manual")

// The tables of the manual lie between these lines.
const (
	manual        = "../../../../docs/reference/commands.md"
	commandsBegin = "<!-- commands: written by go test ./cmd/kairos/internal/cli -run Manual -update -->\n"
	commandsEnd   = "<!-- end of commands -->\n"
)

func TestTheManualListsEveryCommandWithItsFlags(t *testing.T) {
	b, err := os.ReadFile(manual)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begins := strings.Cut(string(b), commandsBegin)
	have, after, ends := strings.Cut(rest, commandsEnd)
	if !begins || !ends {
		t.Fatalf("%s has no place for the commands", manual)
	}
	want := commandTables(Root("1"))
	if *update {
		if err := os.WriteFile(manual, []byte(before+commandsBegin+want+commandsEnd+after), 0o644); err != nil { //nolint:gosec // a page that everybody reads
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(have, want); diff != "" {
		t.Errorf("docs/reference/commands.md is out of date; write it with `go test ./cmd/kairos/internal/cli -run Manual -update` (-page +commands):\n%s", diff)
	}
}

// commandTables is a table for each group of the help.
func commandTables(root *cobra.Command) string {
	var b strings.Builder
	for _, group := range root.Groups() {
		fmt.Fprintf(&b, "\n## %s\n\n| command | does | flags |\n|---|---|---|\n", strings.TrimSuffix(group.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == group.ID {
				commandRows(&b, c)
			}
		}
	}
	b.WriteString("\n")
	return b.String()
}

func commandRows(b *strings.Builder, c *cobra.Command) {
	if c.Hidden {
		return
	}
	if c.Annotations[group] == "" {
		commandRow(b, c)
	}
	for _, below := range c.Commands() {
		commandRows(b, below)
	}
}

func commandRow(b *strings.Builder, c *cobra.Command) {
	var flags []string
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if name, _ := pflag.UnquoteUsage(f); f.Name != "help" && !f.Hidden {
			flags = append(flags, strings.TrimSpace("`--"+f.Name+" "+name)+"`")
		}
	})
	line := strings.TrimSuffix(c.UseLine(), " [flags]")
	fmt.Fprintf(b, "| %s | %s | %s |\n", escaped("`"+line+"`"), escaped(c.Short), escaped(strings.Join(flags, ", ")))
}

// escaped keeps text within its cell of a table.
func escaped(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

// A tool that the server does not have: struct pair, use case and row.

type greetRequest struct {
	Name string `json:"name" doc:"Who is greeted" min:"1"`
}

type greetReply struct {
	Greeting string `json:"greeting" doc:"What to say"`
}

var greet = api.Tool[greetRequest, greetReply]{Declaration: api.Declaration{
	Name: "kairos_greet", Title: "Greet", Description: "Greet somebody by name, to test a server.", ReadOnly: true, Idempotent: true, Icon: "M4 4h6v6h-6z",
}}

func greeted(_ toolset.Engine, _ context.Context, _ access.Caller, in greetRequest) (greetReply, error) { //nolint:revive // a method expression
	return greetReply{Greeting: "Hello, " + in.Name}, nil
}

// newTool adds the row to a copy of the table until the test ends.
func newTool(t *testing.T) {
	t.Helper()
	before := toolset.Table
	toolset.Table = append(slices.Clone(before), toolset.Replies(greet, greeted))
	t.Cleanup(func() { toolset.Table = before })
}

// noEngine has no use cases: the new tool needs none of them.
type noEngine struct{ mcp.Engine }

func served(t *testing.T) string {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	m, err := mcp.New(mcp.Config{
		Version: "v1", Principal: "local", Space: "space:personal", ChallengeTypes: func() []string { return []string{"shell"} },
		StateKeys: func() ([][32]byte, error) { return [][32]byte{{1}}, nil },
	}, noEngine{}, log)
	if err != nil {
		t.Fatal(err)
	}
	a, err := rest.New(rest.Config{
		Version: "v1", Principal: "local", Space: "space:personal", Engine: noEngine{}, MCP: m.HTTP(), Check: m.Check,
		Tools: m.Tools,
	}, log)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(a)
	t.Cleanup(func() {
		s.Close()
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return s.URL
}

func fetch(t *testing.T, method, url, body string, headers ...string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// A tool needs its structs, its use case and one row, and every face serves it.
func TestANewToolIsOneRow(t *testing.T) {
	newTool(t)
	url := served(t)
	t.Setenv(session.ServerEnv, url)
	const arguments = `{"name": "Ada"}`
	const call = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"kairos_greet","arguments":{"name":"Ada"},` +
		`"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`
	list := strings.NewReplacer("tools/call", "tools/list", `"name":"kairos_greet","arguments":{"name":"Ada"},`, "").Replace(call)
	command := func(args ...string) string {
		var out bytes.Buffer
		cmd := Root("1")
		cmd.SetArgs(args)
		cmd.SetOut(&out)
		cmd.SetErr(&out)
		if err := cmd.ExecuteContext(t.Context()); err != nil {
			t.Errorf("kairos %s: %v", strings.Join(args, " "), err)
		}
		return out.String()
	}
	c, err := client.New(url, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	reply, err := greet.Call(t.Context(), c, greetRequest{Name: "Ada"})
	if err != nil {
		t.Error(err)
	}
	for face, tc := range map[string]struct{ got, want string }{
		"list of MCP":    {fetch(t, http.MethodPost, url+"/mcp", list, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/list"), `"kairos_greet"`},
		"call of MCP":    {fetch(t, http.MethodPost, url+"/mcp", call, "Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", greet.Name), "Hello, Ada"},
		"list of REST":   {fetch(t, http.MethodGet, url+"/api", ""), "POST /api/kairos_greet"},
		"call of REST":   {fetch(t, http.MethodPost, url+"/api/kairos_greet", arguments), "Hello, Ada"},
		"check of REST":  {fetch(t, http.MethodPost, url+"/api/kairos_greet", `{"name": ""}`), "INVALID_INPUT"},
		"OpenAPI":        {fetch(t, http.MethodGet, url+"/api/openapi.json", ""), `"kairos_greet_input"`},
		"client":         {reply.Greeting, "Hello, Ada"},
		"command":        {command("call", "kairos_greet", arguments), "Hello, Ada"},
		"shell complete": {command("__complete", "call", ""), "kairos_greet"},
	} {
		if !strings.Contains(tc.got, tc.want) {
			t.Errorf("%s: %s has no %s", face, tc.got, tc.want)
		}
	}
}
