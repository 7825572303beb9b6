// Command demo plays the calendar protocol with `kairos run`: first with KAIROS calling
// the calendar itself, and an agent that invents a booking; then a copy that demands
// nobody's word, as three kinds of client that report what they did; then with a model
// that replies with prose and a person who declines. It prints a timeline of each run, asks the calendar after
// each which appointments it holds, and fails if anything deviates.
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
)

// limit is far above what the whole demo takes.
const limit = 2 * time.Minute

func main() {
	bin := flag.String("bin", "bin", "folder of the built programs")
	verbose := flag.Bool("v", false, "print everything that each run says")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	ctx, cancel := context.WithTimeout(ctx, limit)
	err := play(ctx, *bin, *verbose)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: DEVIATION:", err)
		os.Exit(1)
	}
	fmt.Println("\ndemo: everything went as it must")
}

// act is one run of the demo and what has to happen in it.
type act struct {
	title string
	flags []string
	// want is every moment of the run: step, what, via, provenance.
	want     []string
	verified bool
	fails    bool // the run does not reach its end
	events   int  // appointments in the calendar afterwards
	// observed: KAIROS was given the calendar, and calls it itself.
	observed bool
}

const calls = "model-generated"

var acts = []act{
	{
		title:    "KAIROS calls the calendar itself, and asks the person; the client's model is sent nothing",
		flags:    []string{"--script", "answers-observed.yaml"},
		want:     observed,
		verified: true, events: 1, observed: true,
	},
	{
		title:    "a client of 2025-11-25 with elicitation and sampling",
		flags:    []string{"--era", "2025", "--script", "answers.yaml"},
		want:     driven,
		verified: true, events: 2,
	},
	{
		title:    "a client of 2026-07-28 with elicitation and sampling",
		flags:    []string{"--era", "2026", "--script", "answers.yaml"},
		want:     driven,
		verified: true, events: 3,
	},
	{
		title: "a client without any capability; the operator trusts the agent's word (approval.how)",
		flags: []string{"--without", "elicitation,sampling", "--script", "answers.yaml", "--config", "kairos-agent-approves.yaml"},
		want: []string{
			"1 supplied agent agent-reported", "1 accepted agent agent-reported",
			"2 supplied agent agent-reported", "2 accepted agent agent-reported",
			"3 supplied agent agent-reported", "3 accepted agent agent-reported",
			"4 approved agent agent-reported", "4 supplied agent agent-reported", "4 accepted agent agent-reported",
			"5 attested  ",
		},
		verified: true, events: 4,
	},
	{
		title: "the model answers prose, and the person declines the booking",
		flags: []string{"--script", "answers-decline.yaml"},
		want: []string{
			"1 asked sampling ", "1 repaired sampling ", "1 route_closed sampling ", "1 supplied agent agent-reported", "1 accepted agent agent-reported",
			"2 asked elicitation ", "2 answered elicitation client-attested", "2 accepted elicitation client-attested",
			"3 asked sampling ", "3 repaired sampling ", "3 route_closed sampling ", "3 supplied agent agent-reported", "3 accepted agent agent-reported",
			"4 asked elicitation ", "4 declined elicitation ", "4 refused  ",
		},
		fails: true, events: 4,
	},
	{
		title: "the model answers prose, and nobody does the work in its place",
		flags: []string{"--script", "answers-prose.yaml"},
		want:  []string{"1 asked sampling ", "1 repaired sampling ", "1 route_closed sampling "},
		fails: true, events: 4,
	},
}

// observed is the run whose every fact KAIROS saw or a person gave.
var observed = []string{
	"1 asked elicitation ", "1 answered elicitation client-attested", // what KAIROS may do
	"1 planned tools ", "1 supplied tools server-observed", "1 accepted tools server-observed",
	"2 asked elicitation ", "2 answered elicitation client-attested", "2 accepted elicitation client-attested",
	"3 planned tools ", "3 supplied tools server-observed", "3 accepted tools server-observed",
	"4 planned tools ", "4 asked elicitation ", "4 approved elicitation client-attested",
	"4 called tools ", "4 supplied tools server-observed", "4 accepted tools server-observed",
	"5 attested  ",
}

// driven is the run that the server directs itself.
var driven = []string{
	"1 asked sampling ", "1 answered sampling " + calls, "1 accepted sampling " + calls,
	"2 asked elicitation ", "2 answered elicitation client-attested", "2 accepted elicitation client-attested",
	"3 asked sampling ", "3 answered sampling " + calls, "3 accepted sampling " + calls,
	"4 asked elicitation ", "4 approved elicitation client-attested",
	"4 asked sampling ", "4 answered sampling " + calls, "4 accepted sampling " + calls,
	"5 attested  ",
}

// stage is where the demo plays: programs, examples and a scratch folder.
type stage struct {
	bin, examples, dir string
	verbose            bool
}

func play(ctx context.Context, bin string, verbose bool) (err error) {
	dir, err := os.MkdirTemp("", "kairos-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if bin, err = filepath.Abs(bin); err != nil {
		return err
	}
	s := stage{bin: bin, examples: "examples", dir: dir, verbose: verbose}
	if err := errors.Join(s.addCalendar(ctx), s.copyProtocol("reported.md", `"evidence": `), s.copyProtocol("unapproved.md", `"approval": `, `"evidence": "person"`)); err != nil {
		return err
	}
	for i, a := range acts {
		fmt.Printf("\n=== %d. %s\n\n", i+1, a.title)
		if err := s.perform(ctx, a); err != nil {
			return fmt.Errorf("run %d, %s: %w", i+1, a.title, err)
		}
		if err := s.countEvents(ctx, a.events); err != nil {
			return fmt.Errorf("after run %d: %w", i+1, err)
		}
		if a.observed {
			if err := s.lie(ctx, a.events); err != nil {
				return fmt.Errorf("an agent that invents a booking: %w", err)
			}
		}
	}
	return nil
}

// database is where a run is kept. Only the observed one has the calendar beside it.
func (s stage) database(observed bool) string {
	if observed {
		return filepath.Join(s.dir, "observed", "kairos.db")
	}
	return filepath.Join(s.dir, "kairos.db")
}

// calendar is the folder of the calendar's file. A tool server makes new files only in its
// working folder and in folders that are named.
func (s stage) calendar() string { return filepath.Join(s.dir, "calendar") }

// addCalendar gives KAIROS the calendar, as an operator does.
func (s stage) addCalendar(ctx context.Context) error {
	fmt.Printf("\n=== KAIROS is given a calendar\n\n")
	if err := os.MkdirAll(s.calendar(), 0o700); err != nil {
		return err
	}
	out, err := s.kairosIn(ctx, s.calendar(), "tools", "add", "calendar", "--db", s.database(true), "--yes", "--",
		filepath.Join(s.bin, "calendar-server"), "--state", "calendar.json")
	fmt.Print(out)
	return err
}

// copyProtocol writes the protocol without the lines of its challenges that begin so.
func (s stage) copyProtocol(name string, without ...string) error {
	doc, err := os.ReadFile(filepath.Join(s.examples, "calendar-appointment.md"))
	if err != nil {
		return err
	}
	for _, line := range without {
		doc = regexp.MustCompile("(?m)^    "+regexp.QuoteMeta(line)+".*\n").ReplaceAll(doc, nil)
	}
	return os.WriteFile(filepath.Join(s.dir, name), doc, 0o600)
}

// lie plays the protocol as an agent that does nothing and claims a booking. No person is
// needed here: what refuses the claim is alone that KAIROS has to make the calls. A person has accepted the two calls that only read.
func (s stage) lie(ctx context.Context, events int) error {
	fmt.Printf("\n=== an agent submits a booking that it invented\n\n")
	const protocol = "Create calendar appointment"
	step := func(args ...string) (string, error) {
		return s.kairos(ctx, append(args, "--db", s.database(true))...)
	}
	var reply struct {
		Challenge struct {
			Nonce string `json:"nonce"`
			Hash  string `json:"proof_hash"`
		} `json:"challenge"`
		Code    string `json:"error_code"`
		Message string `json:"message"`
		Solved  []any  `json:"solved"`
	}
	for _, args := range [][]string{
		{"mint", filepath.Join(s.dir, "unapproved.md")},
		{"accept", protocol, "--step", "1,3", "--yes"},
		{"runs", "begin", protocol, "--input", `{"participants":["Adam","Betty"]}`, "-o", "json"},
		{"runs", "next", protocol, "-o", "json", "--solution", `"type":"mcp"`},
		{"runs", "next", protocol, "-o", "json", "--solution", `"type":"user_input","evidence":{"duration_minutes":30}`},
		{"runs", "next", protocol, "-o", "json", "--solution", `"type":"mcp"`},
		{"runs", "next", protocol, "-o", "json", "--solution", `"type":"mcp","mcp":{"tool_name":"create_event","success":true,"result":{"success":true,"event_id":"evt-invented"}}`},
	} {
		if args[1] == "next" {
			args[len(args)-1] = fmt.Sprintf(`{"nonce":%q,"proof_hash":%q,%s}`, reply.Challenge.Nonce, reply.Challenge.Hash, args[len(args)-1])
		}
		out, err := step(args...)
		reply.Code, reply.Solved = "", nil
		if json.Unmarshal([]byte(out), &reply) != nil && err != nil {
			return fmt.Errorf("kairos %s: %w\n%s", args[0], err, out)
		}
	}
	fmt.Printf("  %s: %s\n", reply.Code, reply.Message)
	if reply.Code != "EVIDENCE_NOT_ACCEPTED" || len(reply.Solved) > 0 || !strings.Contains(reply.Message, `"event"`) {
		return fmt.Errorf("the invented booking got the reply %q, must be EVIDENCE_NOT_ACCEPTED", reply.Code)
	}
	return s.countEvents(ctx, events)
}

var runLine = regexp.MustCompile(`(?m)run ([0-9a-f]{8}-[0-9a-f-]{27})\b`)

// perform plays one run and compares its timeline with what must happen.
func (s stage) perform(ctx context.Context, a act) error {
	file := filepath.Join(s.examples, "calendar-appointment.md")
	if !a.observed {
		file = filepath.Join(s.dir, "reported.md")
	}
	args := []string{
		"run", file, "--db", s.database(a.observed),
		"--servers", filepath.Join(s.examples, "demo", "servers.json"), "--input", `{"participants":["Adam","Betty","Candy"]}`,
	}
	for _, f := range a.flags {
		if strings.HasSuffix(f, ".yaml") {
			f = filepath.Join(s.examples, "demo", f)
		}
		args = append(args, f)
	}
	out, runErr := s.kairos(ctx, args...)
	if s.verbose || (runErr != nil) != a.fails {
		fmt.Println(out)
	}
	if (runErr != nil) != a.fails {
		return fmt.Errorf("kairos run: %w, want failure %v", runErr, a.fails)
	}
	id := runLine.FindStringSubmatch(out)
	if id == nil {
		return fmt.Errorf("no run id in the output of kairos run:\n%s", out)
	}
	told, err := s.kairos(ctx, "runs", "show", id[1], "--db", s.database(a.observed))
	if err != nil {
		return fmt.Errorf("kairos runs show: %w\n%s", err, told)
	}
	fmt.Print(told)
	return s.compare(ctx, id[1], a)
}

// kairos runs the program and returns what it printed.
func (s stage) kairos(ctx context.Context, args ...string) (string, error) {
	return s.kairosIn(ctx, "", args...)
}

// kairosIn does the same in a folder.
func (s stage) kairosIn(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "kairos"), args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(),
		"CALENDAR_SERVER="+filepath.Join(s.bin, "calendar-server"), "CALENDAR_STATE="+filepath.Join(s.calendar(), "calendar.json"), "LOG_LEVEL=error")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err := cmd.Run()
	return out.String(), err
}

func (s stage) compare(ctx context.Context, id string, a act) error {
	raw, err := s.kairos(ctx, "runs", "show", id, "-o", "json", "--db", s.database(a.observed))
	if err != nil {
		return fmt.Errorf("kairos runs show -o json: %w\n%s", err, raw)
	}
	var line struct {
		Verified bool `json:"verified"`
		Moments  []struct {
			Step       int    `json:"step"`
			What       string `json:"what"`
			Via        string `json:"via"`
			Provenance string `json:"provenance"`
			ProofHash  string `json:"proof_hash"`
		} `json:"moments"`
	}
	if err := json.Unmarshal([]byte(raw), &line); err != nil {
		return fmt.Errorf("kairos runs show -o json printed no JSON: %w\n%s", err, raw)
	}
	var got []string
	for _, m := range line.Moments {
		got = append(got, fmt.Sprintf("%d %s %s %s", m.Step, m.What, m.Via, m.Provenance))
		if (m.What == "accepted") != (len(m.ProofHash) == 64) {
			return fmt.Errorf("step %d %s with proof hash %q", m.Step, m.What, m.ProofHash)
		}
	}
	if !slices.Equal(got, a.want) {
		return fmt.Errorf("the run went\n  %s\nand must go\n  %s", strings.Join(got, "\n  "), strings.Join(a.want, "\n  "))
	}
	if line.Verified != a.verified {
		return fmt.Errorf("verified is %v, must be %v", line.Verified, a.verified)
	}
	return nil
}

// countEvents asks the calendar itself, over MCP.
func (s stage) countEvents(ctx context.Context, want int) (err error) {
	c, err := client.NewStdioMCPClient(filepath.Join(s.bin, "calendar-server"), nil, "--state", filepath.Join(s.calendar(), "calendar.json"))
	if err != nil {
		return fmt.Errorf("start the calendar: %w", err)
	}
	defer func() { err = errors.Join(err, ignoreClosed(c.Close())) }()
	var hello mcp.InitializeRequest
	hello.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	hello.Params.ClientInfo = mcp.Implementation{Name: "demo", Version: "1"}
	if _, err := c.Initialize(ctx, hello); err != nil {
		return fmt.Errorf("greet the calendar: %w", err)
	}
	var call mcp.CallToolRequest
	call.Params.Name = "list_events"
	call.Params.Arguments = map[string]any{"title": "Team appointment"}
	res, err := c.CallTool(ctx, call)
	if err != nil {
		return fmt.Errorf("ask the calendar: %w", err)
	}
	b, err := json.Marshal(res.StructuredContent)
	if err != nil {
		return err
	}
	var listed struct {
		Count int `json:"count"`
	}
	if err := json.Unmarshal(b, &listed); err != nil {
		return fmt.Errorf("the calendar answered %s: %w", b, err)
	}
	fmt.Printf("\n  the calendar holds the appointment %d times\n", listed.Count)
	if listed.Count != want {
		return fmt.Errorf("the calendar holds the appointment %d times, must be %d", listed.Count, want)
	}
	return nil
}

// ignoreClosed: the calendar ends when its stdin closes, which is what Close does.
func ignoreClosed(err error) error {
	var exit *exec.ExitError
	if errors.As(err, &exit) || errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}
