package play

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"
	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/terminal"
	"github.com/kairos-mcp/kairos/core/api"
)

func TestTheBrowserIsGivenTheAddressAndNotTheModelsKey(t *testing.T) {
	dir := t.TempDir()
	told := filepath.Join(dir, "told")
	for _, opener := range []string{"xdg-open", "open"} {
		script := "#!/bin/sh\n{ echo \"$1\"; env; } > '" + told + "'\n"
		if err := os.WriteFile(filepath.Join(dir, opener), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":0")
	t.Setenv(terminal.KeyEnv, "a-key-that-is-secret")
	if err := browser()(t.Context(), "http://127.0.0.1:1/approve/x"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(told)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(b); !strings.HasPrefix(got, "http://127.0.0.1:1/approve/x\n") || strings.Contains(got, "a-key-that-is-secret") {
		t.Errorf("the browser is told %s", got)
	}
}

func TestAPersonIsShownTheTemplateWithoutWhatIsFilledIn(t *testing.T) {
	reply := api.StepReply{
		Challenge: api.Challenge{Type: "comment"},
		NextCall: &api.NextCall{Tool: "kairos_next", Arguments: json.RawMessage(
			`{"uri":"kairos://mem/x","solution":{"type":"comment","nonce":"n","proof_hash":"h","comment":{"text":"\u003cstring: text\u003e"}}}`)},
	}
	const want = `{"comment":{"text":"<string: text>"}}`
	if got := callAfter(reply).form(reply.Challenge); got != want {
		t.Errorf("form = %s, want %s", got, want)
	}
}

// The file beside a protocol came with it, so it starts nothing by itself.
func TestTheServersOfAProtocolAreStartedOnlyIfSomebodySaysSo(t *testing.T) {
	const (
		good    = `{"mcpServers":{"calendar":{"command":"./tool","args":["--state","my calendar.json"],"env":{"ZONE":"UTC"}}}}`
		missing = `{"mcpServers":{"calendar":{"command":"./nothing"}}}`
		line    = "/tool --state 'my calendar.json'"
	)
	for name, tc := range map[string]struct {
		sidecar string // "": there is none
		flags   []string
		typed   string // at a terminal; "": nobody is there
		added   string // tools that added servers have
		started bool
		wrong   string
		says    []string
	}{
		"no sidecar":            {},
		"nobody is there":       {sidecar: good, says: []string{line, "  calendar: ZONE=UTC /", "They are not started"}},
		"the flag":              {sidecar: good, flags: []string{"--with-servers"}, started: true, says: []string{line}},
		"the flag, no sidecar":  {flags: []string{"--with-servers"}, wrong: "there is no file"},
		"the flag is false":     {sidecar: good, flags: []string{"--with-servers=false"}, typed: "y\n"},
		"a person agrees":       {sidecar: good, typed: "y\n", started: true, says: []string{line, "[y/N]"}},
		"a person declines":     {sidecar: good, typed: "no\n", says: []string{line, "[y/N]", "not started"}},
		"an empty line":         {sidecar: good, typed: "\n", says: []string{"[y/N]", "not started"}},
		"other servers":         {sidecar: good, flags: []string{"--servers", "mine.json"}, typed: "y\n"},
		"has all the tools":     {sidecar: good, typed: "y\n", added: "find_user_by_name create_event"},
		"lacks one of them":     {sidecar: good, typed: "n\n", added: "find_user_by_name", says: []string{"[y/N]", "kairos tools add"}},
		"has them, and a flag":  {sidecar: good, flags: []string{"--with-servers"}, added: "find_user_by_name create_event", started: true, says: []string{line}},
		"no such program":       {sidecar: missing, typed: "y\n", wrong: "build or install it", says: []string{"/nothing"}},
		"and nobody is there":   {sidecar: missing, says: []string{"/nothing", "They are not started"}},
		"malformed":             {sidecar: "{", typed: "y\n", wrong: "--with-servers=false runs it without them"},
		"malformed, not wanted": {sidecar: "{", flags: []string{"--with-servers=false"}},
		"an unknown field":      {sidecar: strings.Replace(good, "args", "arguments", 1), typed: "y\n", wrong: `"arguments"`},
		"hidden characters":     {sidecar: strings.Replace(good, "--state", "\u202e\\u001b[2J", 1), says: []string{"U+202E", "U+001B"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir, err := filepath.EvalSymlinks(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "tool"), "#!/bin/sh\n", 0o755)
			if tc.sidecar != "" {
				write(t, filepath.Join(dir, "visit.servers.json"), tc.sidecar, 0o644)
			}
			t.Setenv("KAIROS_TOOLS", filepath.Join(dir, "tools.json"))
			if tc.added != "" {
				write(t, filepath.Join(dir, "tools.json"), toolsFile(tc.added), 0o600)
			}
			got, said, err := offer(t, filepath.Join(dir, "visit.md"), tc.typed, tc.flags...)
			if tc.wrong == "" && err != nil || !strings.Contains(fmt.Sprint(err), tc.wrong) {
				t.Errorf("error = %v, want %q", err, tc.wrong)
			}
			want := terminal.Servers(nil)
			if tc.started {
				want = terminal.Servers{"calendar": {
					Command: filepath.Join(dir, "tool"), Args: []string{"--state", "my calendar.json"}, Env: map[string]string{"ZONE": "UTC"},
				}}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("servers to start:\n%s", diff)
			}
			for _, text := range tc.says {
				if !strings.Contains(said, text) {
					t.Errorf("%q is not in\n%s", text, said)
				}
			}
			if tc.says == nil && said != "" {
				t.Errorf("it says %s", said)
			}
		})
	}
}

func TestASidecarIsAFileOfItsOwn(t *testing.T) {
	for name, tc := range map[string]struct {
		make func(path string) error
		want string
	}{
		"a link":   {func(path string) error { return os.Symlink("/etc/hostname", path) }, "is a symbolic link"},
		"a pipe":   {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "is not a regular file"},
		"a folder": {func(path string) error { return os.Mkdir(path, 0o700) }, "is not a regular file"},
		"too large": {func(path string) error {
			return os.WriteFile(path, bytes.Repeat([]byte(" "), 10<<20), 0o600)
		}, "larger than"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := tc.make(filepath.Join(dir, "visit.servers.json")); err != nil {
				t.Fatal(err)
			}
			got, said, err := offer(t, filepath.Join(dir, "visit.md"), "y\n")
			if got != nil || said != "" || !strings.Contains(fmt.Sprint(err), tc.want) {
				t.Errorf("%v, %v, %q, want %s", got, err, said, tc.want)
			}
		})
	}
}

// document needs two tools.
const document = "# Visit\n\n## Find\n\nFind.\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"mcp\":{\"tool_name\":\"find_user_by_name\"}}}\n```\n\n" +
	"## Book\n\nBook.\n\n```json\n{\"challenge\":{\"type\":\"mcp\",\"mcp\":{\"tool_name\":\"calendar.create_event\"}}}\n```\n"

// toolsFile is a file with a server that has these tools.
func toolsFile(names string) string {
	var tools []string
	for _, name := range strings.Fields(names) {
		tools = append(tools, fmt.Sprintf(`%q:{"class":"reads","input_schema":{}}`, name))
	}
	return `{"mcpServers":{"calendar":{"command":"/bin/calendar","accepted_tools":{` + strings.Join(tools, ",") + `}}}}`
}

// offer offers the servers of a protocol to a person at a terminal; typed is
// empty: nobody is there.
func offer(t *testing.T, protocol, typed string, args ...string) (terminal.Servers, string, error) {
	t.Helper()
	var f Flags
	var out bytes.Buffer
	cmd := &cobra.Command{}
	f.AddTo(cmd)
	cmd.Flags().BoolVar(&f.withServers, withServers, false, "")
	cmd.SetContext(t.Context())
	cmd.SetOut(&out)
	cmd.SetIn(strings.NewReader(""))
	if typed != "" {
		keyboard, tty, err := pty.Open()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _, _ = keyboard.Close(), tty.Close() }()
		cmd.SetIn(tty)
		cmd.SetOut(answering{&out, func() { _, _ = keyboard.WriteString(typed) }})
	}
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	servers, err := f.offered(cmd, &session.Session{}, protocol, []byte(document))
	return servers, out.String(), err
}

// answering is an output whose reader answers questions.
type answering struct {
	io.Writer
	answer func()
}

func (a answering) Write(b []byte) (int, error) {
	if bytes.HasSuffix(b, []byte("[y/N] ")) {
		defer a.answer()
	}
	return a.Writer.Write(b)
}

func write(t *testing.T, path, text string, mode os.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}
