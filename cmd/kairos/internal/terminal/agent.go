package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/sdk/plain"
)

// agent does the work of steps that the server could not get done itself.
type agent struct{ host *host }

// task is the work that an open step asks for.
type task struct {
	content   string // Markdown of the step
	challenge challenge
	// index and count are the step's place in the protocol.
	index, count int
}

// demandsFiles reports whether the work is done and its files are to be reported.
func (t task) demandsFiles() bool {
	var show struct {
		Files []json.RawMessage `json:"files"`
	}
	return json.Unmarshal(t.challenge.Display, &show) == nil && len(show.Files) > 0
}

// asks is what the challenge asks for.
func (t task) asks() string {
	if t.challenge.Description == "" {
		return strings.TrimSpace(t.content)
	}
	return t.challenge.Description
}

// question is what a person decides about the step, whose content is on the
// screen already.
func (t task) question(kind Kind, more string) question {
	return question{
		kind: kind, text: strings.TrimSpace(t.text() + "\n" + more),
		unread: strings.TrimSpace(t.challenge.Description + "\n" + more),
	}
}

// text is the step with what its challenge asks for.
func (t task) text() string {
	return strings.TrimSpace(t.content + "\n\n" + t.challenge.Description)
}

// defaultTimeout of a command whose challenge names none.
const defaultTimeout = 30 * time.Second

// solve does the work and returns the solution to submit; errRefused when the
// person did not want it done.
func (a agent) solve(ctx context.Context, t task) (map[string]any, error) {
	// The one place that knows how each type's work is done: here the host is
	// an agent like any other. Types it has no hands for are left to the person.
	work, known := map[string]func(context.Context, task) (any, error){
		"shell":      a.shell,
		"mcp":        a.tool,
		"user_input": a.confirm,
		"comment":    a.comment,
	}[t.challenge.Type]
	key := t.challenge.Type
	if !known || t.demandsFiles() {
		work, key = a.evidence, "evidence"
	}
	done, err := work(ctx, t)
	if err != nil {
		return nil, err
	}
	return t.challenge.solution(key, done), nil
}

func (a agent) shell(ctx context.Context, t task) (any, error) {
	var show struct {
		Command string  `json:"cmd"`
		Timeout float64 `json:"timeout_seconds"`
	}
	if err := json.Unmarshal(t.challenge.Display, &show); err != nil || show.Command == "" {
		return nil, errors.New("the shell challenge names no command")
	}
	timeout := defaultTimeout
	if show.Timeout > 0 {
		timeout = time.Duration(show.Timeout * float64(time.Second))
	}
	if t.wasApproved(a.host.exchange.takeApproved()) {
		a.host.console.say("\nThe command runs as you approved it:")
		a.host.console.quote(show.Command)
	} else {
		d, err := a.host.decide(ctx, question{
			kind: KindShell, text: fmt.Sprintf("Run with sh, at most %s:\n%s", timeout, show.Command),
		})
		if err != nil {
			return nil, err
		}
		if d.verb != verbRun {
			return nil, errRefused
		}
	}
	end := a.host.during(ctx, "running "+clipTo(firstLine(show.Command), 40))
	res, err := runCommand(ctx, a.host.cfg.Dir, show.Command, timeout)
	end()
	if err != nil {
		return nil, err
	}
	a.host.console.say("command: exit code %d", res.ExitCode)
	a.host.console.quote(res.Stdout + res.Stderr)
	return res, nil
}

// toolReport is what the agent says of a tool call.
type toolReport struct {
	Tool      string          `json:"tool_name"`
	Arguments map[string]any  `json:"arguments"`
	Result    json.RawMessage `json:"result"`
	Success   bool            `json:"success"`
}

// ToolOf is the tool that the challenge of a step names; "": it names none.
func ToolOf(step json.RawMessage) string {
	var named struct {
		MCP struct {
			Tool string `json:"tool_name"`
		} `json:"mcp"`
	}
	if json.Unmarshal(step, &named) != nil {
		return ""
	}
	return named.MCP.Tool
}

func (a agent) tool(ctx context.Context, t task) (any, error) {
	var show struct {
		Tool      string         `json:"tool_name"`
		Arguments map[string]any `json:"arguments"`
	}
	if err := decode(t.challenge.Display, &show); err != nil || show.Tool == "" {
		return nil, errors.New("the mcp challenge names no tool")
	}
	ref, err := a.host.tools.find(ctx, show.Tool)
	if err != nil {
		return nil, err
	}
	if show.Arguments == nil && a.host.hasModel() {
		if show.Arguments, err = a.proposeArguments(ctx, t, ref); err != nil {
			return nil, err
		}
	}
	args := show.Arguments
	if args != nil && t.wasApproved(a.host.exchange.takeApproved()) {
		a.host.console.say("\nThe call is made as you approved it.")
	} else if args, err = a.host.consent(ctx, ref, args); err != nil {
		return nil, err
	}
	end := a.host.during(ctx, "calling "+clipTo(plain.Line(ref.tool.Name), 40))
	res, err := a.host.tools.call(ctx, ref.server, ref.tool.Name, args)
	end()
	if err != nil {
		return nil, err
	}
	a.host.console.say("call: %s.%s(%s) -> %s", ref.server, ref.tool.Name, compact(args), res.Value)
	return toolReport{Tool: show.Tool, Arguments: args, Result: res.Value, Success: res.Success}, nil
}

// proposeArguments asks the model how to call a tool; nil when it has no idea.
func (a agent) proposeArguments(ctx context.Context, t task, ref toolRef) (map[string]any, error) {
	c, err := a.host.model.complete(ctx, prompt{
		System: "Give the arguments of one call of the tool " + ref.tool.Name + " as one JSON object and nothing else. JSON Schema: " +
			string(ref.tool.InputSchema),
		User: t.text(),
	}, nil, nil)
	if err != nil {
		return nil, err
	}
	args, _ := readArguments(c.Text)
	return args, nil
}

func (a agent) comment(ctx context.Context, t task) (any, error) {
	q := t.question(KindComment, "")
	q.canRun = a.host.hasModel()
	d, err := a.host.decide(ctx, q)
	if err != nil {
		return nil, err
	}
	text := d.text()
	switch d.verb {
	case verbRefuse:
		return nil, errRefused
	case verbRun:
		c, err := a.host.askModel(ctx, prompt{
			System: "You carry out one step of a procedure. Write only the text that the step asks for.",
			User:   t.text(),
		}, false)
		if err != nil {
			return nil, err
		}
		if text, err = a.host.decider.review(ctx, c.Text); err != nil {
			return nil, err
		}
	}
	a.host.told("comment: %s", text)
	return map[string]any{"text": text}, nil
}

// How an agent reports a person's yes and no.
const (
	approved = "approved"
	rejected = "rejected"
)

func (a agent) confirm(ctx context.Context, t task) (any, error) {
	d, err := a.host.decide(ctx, question{kind: KindConfirm, text: t.asks()})
	if err != nil {
		return nil, err
	}
	text := d.text()
	if d.verb == verbDecline {
		text = rejected
	}
	a.host.told("answer: %s", text)
	return map[string]any{"confirmation": text, "timestamp": time.Now().UTC().Format(time.RFC3339)}, nil
}

func (a agent) evidence(ctx context.Context, t task) (any, error) {
	d, err := a.host.decide(ctx, t.question(KindEvidence, string(t.challenge.Display)))
	if err != nil {
		return nil, err
	}
	switch d.verb {
	case verbRefuse:
		return nil, errRefused
	case verbCall:
		res, err := a.host.scriptedCall(ctx, d)
		return res.Value, err
	}
	return d.answer, nil
}

// wasApproved reports whether the person has just approved exactly this work in a
// question of the server, so that the host need not ask for the same once more.
// Only a question counts that names the step in its first line and shows the whole
// challenge in its second, as approvals do.
func (t task) wasApproved(question string) bool {
	lines := strings.SplitN(question, "\n", 3)
	if len(lines) < 2 || !strings.HasPrefix(lines[0], fmt.Sprintf("Approve step %d of %d, ", t.index, t.count)) {
		return false
	}
	shown, ok := strings.CutPrefix(lines[1], "It will be done with "+t.challenge.Type+": ")
	if !ok {
		return false
	}
	var approved, due map[string]any
	if decode([]byte(shown), &approved) != nil || decode(t.challenge.Display, &due) != nil {
		return false
	}
	return reflect.DeepEqual(approved, due)
}

// approves reports whether an answer to a form is the word that approves.
func approves(answer json.RawMessage) bool {
	var said struct {
		Confirmation string `json:"confirmation"`
	}
	return json.Unmarshal(answer, &said) == nil && said.Confirmation == approved
}

// accepts reports whether an answer to a form accepts that KAIROS does steps itself.
func accepts(answer json.RawMessage) bool {
	var said struct {
		Accept string `json:"accept"`
	}
	return json.Unmarshal(answer, &said) == nil && said.Accept != "" && !slices.Contains(noWords, strings.ToLower(said.Accept))
}

// maxOutput is how many bytes of each output stream of a command are kept.
const maxOutput = 64 << 10

// Exit codes of commands that did not end by themselves, as shells have them.
const (
	exitTimeout    = 124
	exitNotStarted = 127
)

// commandResult is what a command did.
type commandResult struct {
	ExitCode int     `json:"exit_code"`
	Stdout   string  `json:"stdout"`
	Stderr   string  `json:"stderr"`
	Seconds  float64 `json:"duration_seconds"`
}

// runCommand runs a command with sh in a directory. On timeout its whole
// process group is killed.
func runCommand(ctx context.Context, dir, line string, timeout time.Duration) (commandResult, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cmd := exec.CommandContext(limited, "sh", "-c", line)
	cmd.Dir = dir
	cmd.Env = Environment()
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	// A process that has left the group must not hold us through an open pipe.
	cmd.WaitDelay = time.Second
	stdout, stderr := &bounded{}, &bounded{}
	cmd.Stdout, cmd.Stderr = stdout, stderr
	start := time.Now()
	err := cmd.Run()
	res := commandResult{Stdout: stdout.String(), Stderr: stderr.String(), Seconds: time.Since(start).Seconds()}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return res, context.Cause(ctx)
	case limited.Err() != nil:
		res.ExitCode = exitTimeout
		res.Stderr += fmt.Sprintf("\nkilled: still running after %s", timeout)
	case errors.As(err, &exit):
		res.ExitCode = exitCode(exit)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		res.ExitCode = exitNotStarted
		res.Stderr += err.Error()
	}
	return res, nil
}

func exitCode(exit *exec.ExitError) int {
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return 128 + int(status.Signal())
	}
	return exit.ExitCode()
}

// bounded keeps the beginning of a stream.
type bounded struct {
	kept    bytes.Buffer
	dropped int
}

// Write keeps what fits and counts the rest.
func (b *bounded) Write(p []byte) (int, error) {
	room := min(maxOutput-b.kept.Len(), len(p))
	b.kept.Write(p[:room])
	b.dropped += len(p) - room
	return len(p), nil
}

// String is what was kept, with a note of what was not.
func (b *bounded) String() string {
	text := string(bytes.ToValidUTF8(b.kept.Bytes(), []byte("\uFFFD")))
	if b.dropped > 0 {
		text += fmt.Sprintf("\n[%d bytes dropped]", b.dropped)
	}
	return text
}
