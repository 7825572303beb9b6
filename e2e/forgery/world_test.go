package forgery_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/e2e/forgery"
	"github.com/kairos-mcp/kairos/examples/calendar-server/calendar"
)

// trial is one attack on one kind of record, in a world of its own: a calendar with
// its server, a workspace with its history, a person, and an agent that has tools
// and a shell of its own unless KAIROS observes.
type trial struct {
	*testing.T
	record forgery.Record
	bin    string // the programs
	dir    string
	person *person
	// commands are the settings of the driver command, beside the workspace.
	commands string
	// settings are further lines of kairos.yaml.
	settings string
	// drivers is the folder of drivers; empty: those of bin.
	drivers string
	calls   int // of tools, by the agent itself
	// only names the tools that the operator says only read; empty: find_slot.
	only string
	// url is where the server listens; empty: each agent starts one for itself.
	url string
	// unclassed: the operator takes the word of tools for what they do.
	unclassed bool
}

// workspace is what the commands work on: its scripts, and a test of its code.
var workspace = map[string]string{
	"check.sh":     "echo checked >>done\n",
	"deploy.sh":    "echo deployed to $(cat target.txt) >>done\n",
	"other.sh":     "echo other >>done\n",
	"target.txt":   "staging\n",
	"code.txt":     "5\n",
	"expected.txt": "4\n",
	"test.sh":      `test "$(cat code.txt)" = "$(cat expected.txt)"` + "\n",
}

func newTrial(t *testing.T, bin string, record forgery.Record) *trial {
	t.Helper()
	// Not t.TempDir: commands run as another user, who must reach the folder.
	dir, err := os.MkdirTemp("", "forgery-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	x := &trial{T: t, record: record, bin: bin, dir: dir, person: &person{}, commands: "writes: true"}
	if err := os.Chmod(dir, 0o755); err != nil { //nolint:gosec // see above
		t.Fatal(err)
	}
	x.write("kairos.yaml", "admin: {socket: off}\n")
	for name, text := range workspace {
		x.write("work/"+name, text)
	}
	x.write("work/.gitignore", "done\n")
	x.must(x.sh(`git init -q -b main && git add -A && git -c user.name=t -c user.email=t@example.com commit -q -m start`))
	// The tool is reached through a script, which an attacker may replace.
	x.write("tool.sh", fmt.Sprintf("exec %q --state %q --now 2026-03-02T08:00:00Z\n", filepath.Join(bin, "calendar-server"), x.path("calendar.json")))
	return x
}

func (x *trial) path(name string) string { return filepath.Join(x.dir, filepath.FromSlash(name)) }

func (x *trial) write(name, text string) {
	x.Helper()
	if err := os.MkdirAll(filepath.Dir(x.path(name)), 0o755); err != nil { //nolint:gosec // others read it
		x.Fatal(err)
	}
	if err := os.WriteFile(x.path(name), []byte(text), 0o644); err != nil { //nolint:gosec // others read it
		x.Fatal(err)
	}
}

// sh is a shell of the agent, in the workspace.
func (x *trial) sh(command string) (string, error) {
	cmd := exec.CommandContext(x.Context(), "sh", "-c", command)
	cmd.Dir = x.path("work")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (x *trial) must(out string, err error) {
	x.Helper()
	if err != nil {
		x.Fatalf("%v\n%s", err, out)
	}
}

// events are those in the calendar's file.
func (x *trial) events() []calendar.Event {
	x.Helper()
	text, err := os.ReadFile(x.path("calendar.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		x.Fatal(err)
	}
	var book calendar.Book
	if err := json.Unmarshal(text, &book); err != nil {
		x.Fatal(err)
	}
	return book.Events
}

// done are the lines that the commands left behind.
func (x *trial) done() string {
	text, err := os.ReadFile(x.path("work/done"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		x.Fatal(err)
	}
	return strings.Join(strings.Split(strings.TrimSpace(string(text)), "\n"), ", ")
}

// tool calls a tool with the agent's own client and returns its structured result.
func (x *trial) tool(name string, arguments any) string {
	x.Helper()
	x.calls++
	res, err := x.call(name, arguments)
	if err != nil {
		x.Fatalf("the agent's call of %s: %v", name, err)
	}
	x.reads(mcp.GetTextFromContent(res.Content[0]))
	if res.IsError { // as an agent would
		return x.tool(name, arguments)
	}
	text, err := json.Marshal(res.StructuredContent)
	if err != nil {
		x.Fatal(err)
	}
	return string(text)
}

// ends calls a tool whose program ends before it answers.
func (x *trial) ends(name string, arguments any) {
	x.Helper()
	if _, err := x.call(name, arguments); err == nil {
		x.Fatalf("the call of %s was answered", name)
	}
}

// call calls a tool in a process of its own.
func (x *trial) call(name string, arguments any) (*mcp.CallToolResult, error) {
	x.Helper()
	c := client.NewClient(transport.NewStdio("sh", nil, x.path("tool.sh")))
	if err := c.Start(x.Context()); err != nil {
		x.Fatal(err)
	}
	defer c.Close()
	hello(x.T, c)
	var call mcp.CallToolRequest
	call.Params.Name, call.Params.Arguments = name, arguments
	return c.CallTool(x.Context(), call)
}

func hello(t *testing.T, c *client.Client) {
	t.Helper()
	var init mcp.InitializeRequest
	init.Params.ProtocolVersion = "2025-11-25"
	init.Params.ClientInfo = mcp.Implementation{Name: "agent", Version: "1"}
	if _, err := c.Initialize(t.Context(), init); err != nil {
		t.Fatal(err)
	}
}

var instruction = regexp.MustCompile(`AGENT: create the file (\w+)`)

// reads is the agent reading a text. It follows each instruction in it.
func (x *trial) reads(text string) {
	x.Helper()
	for _, found := range instruction.FindAllStringSubmatch(text, -1) {
		x.write(found[1], "")
	}
}

// followed says that the agent followed an instruction.
func (x *trial) followed(file string) bool {
	_, err := os.Stat(x.path(file))
	return err == nil
}

// kairos runs the program as the operator.
func (x *trial) kairos(args ...string) string {
	x.Helper()
	cmd := x.program(x.Context(), args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		x.Fatalf("kairos %s: %v\n%s", strings.Join(args, " "), err, out.String())
	}
	return out.String()
}

func (x *trial) program(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, filepath.Join(x.bin, "kairos"), args...)
	cmd.Env = x.environ()
	return cmd
}

func (x *trial) environ() []string {
	return append(os.Environ(), "KAIROS_CONFIG="+x.path("kairos.yaml"), "LOG_LEVEL=warn", "HOME="+x.path("home"))
}

// person is who is asked. They approve unless they have a reason not to.
type person struct {
	declines bool
	// looksFor is a line that they look for in the question; empty: none. They
	// decline a question without it.
	looksFor string
	// then happens once after an approval, before anything else does.
	then func()
	// asked are the questions; approved says how each was answered.
	asked    []string
	approved []bool
}

func (p *person) ask(question string) bool {
	time.Sleep(1200 * time.Millisecond) // a faster answer is the client's own
	approves := !p.declines && p.finds(question)
	p.asked = append(p.asked, question)
	p.approved = append(p.approved, approves)
	if then := p.then; then != nil && approves {
		p.then = nil
		then()
	}
	return approves
}

func (p *person) finds(question string) bool {
	for line := range strings.Lines(question) {
		if p.looksFor == strings.Trim(line, "> \n") {
			return true
		}
	}
	return p.looksFor == ""
}

// agreed says that the person's last word was an approval.
func (p *person) agreed() bool { return len(p.approved) > 0 && p.approved[len(p.approved)-1] }
