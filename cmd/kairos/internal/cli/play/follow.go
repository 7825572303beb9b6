package play

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/flags"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/output"
	"github.com/kairos-mcp/kairos/cmd/kairos/internal/cli/session"
	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/fault"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// walk is one `kairos runs next --follow`. It ends: each call but a few takes a
// solution that somebody gave.
type walk struct {
	cmd   *cobra.Command
	tools api.Transport
	out   output.Format
	url   string            // the server that was named by an option
	given []json.RawMessage // of --solution, those that are not used yet
	lines *bufio.Scanner    // standard input
	asks  bool              // a person is at standard input

	shown     string // what is printed already, by step and nonce
	unaided   int    // calls in a row without a solution for the step
	unaidedAt int    // that step
}

// maxUnaided is how often a step that should proceed by itself is called for
// before a solution is asked for.
const maxUnaided = 3

// maxSolutionLine is more than a server takes, in bytes.
const maxSolutionLine = 8 << 20

func newWalk(cmd *cobra.Command, at *session.Session, t api.Transport, out output.Format, given []json.RawMessage) *walk {
	w := &walk{cmd: cmd, tools: t, out: out, url: at.URL, given: given, asks: output.IsTerminal(cmd.InOrStdin())}
	w.lines = bufio.NewScanner(cmd.InOrStdin())
	w.lines.Buffer(nil, maxSolutionLine)
	return w
}

// run walks to the end. Anything else that ends it is an error, which says
// where the run stands.
func (w *walk) run(ctx context.Context, in api.NextRequest) error {
	// The call without a solution shows which step is open, and counts no
	// failure. A solution that lacks nothing needs no such look.
	if len(w.given) > 0 && isWhole(w.given[0]) {
		in.Solution, w.given = w.given[0], w.given[1:]
	}
	reply, err := api.Next.Call(ctx, w.tools, in)
	if err != nil {
		return err
	}
	refusal := in.Solution != nil && reply.ErrorCode != ""
	for {
		if err := w.show(reply); err != nil {
			return err
		}
		call := callAfter(reply)
		if reply.ErrorCode == "" && call.tool == "kairos_attest" {
			return w.finish(reply)
		}
		if refusal || !mayContinue(reply) {
			return w.stopped(reply)
		}
		if reply, refusal, err = w.step(ctx, reply, call); err != nil {
			return err
		}
	}
}

// step gets a solution and submits it. refusal: it came from an option and was
// refused, so that the next option is not meant for this step.
func (w *walk) step(ctx context.Context, reply api.StepReply, call nextStep) (next api.StepReply, refusal bool, err error) {
	in := api.NextRequest{URI: call.uri, RunID: reply.RunID}
	fromOption := false
	if in.Solution = w.unaidedSolution(reply, call); in.Solution == nil {
		var raw json.RawMessage
		if raw, fromOption, err = w.solution(ctx, reply, call); err != nil {
			return next, false, err
		}
		if in.Solution, err = filledIn(raw, reply.Challenge); err != nil {
			return next, false, err
		}
	}
	if next, err = api.Next.Call(ctx, w.tools, in); err != nil {
		return next, false, err
	}
	refused := next.ErrorCode != "" && next.StepIndex == reply.StepIndex
	if refused && in.Solution != nil && !fromOption && w.out.ForPeople() && mayContinue(next) && next.ErrorCode != string(fault.MissingField) {
		output.Tell(w.cmd.ErrOrStderr(), "refused (%s): %s\n", next.ErrorCode, output.Commands(next.Message))
	}
	return next, refused && fromOption, nil
}

// unaidedSolution is what to send for a step that needs nothing from here: the
// server obtains its proof, or it has no challenge. It returns nil if the step needs a solution.
func (w *walk) unaidedSolution(reply api.StepReply, call nextStep) json.RawMessage {
	if w.unaidedAt != reply.StepIndex {
		w.unaidedAt, w.unaided = reply.StepIndex, 0
	}
	if reply.ErrorCode != "" && reply.ErrorCode != string(fault.MissingField) || w.unaided >= maxUnaided || !call.unaided() {
		return nil
	}
	w.unaided++
	return call.solution
}

// solution takes the next one that is given: by an option, else by a line of
// standard input.
func (w *walk) solution(ctx context.Context, reply api.StepReply, call nextStep) (s json.RawMessage, option bool, err error) {
	if len(w.given) > 0 {
		s, w.given = w.given[0], w.given[1:]
		return s, true, nil
	}
	for {
		if w.asks {
			w.ask(reply, call)
		}
		line, err := w.line(ctx)
		if err == nil && w.asks && line == "" || errors.Is(err, io.EOF) {
			return nil, false, w.unsolved(reply)
		}
		if err != nil {
			return nil, false, fmt.Errorf("read a solution from standard input: %w", err)
		}
		if line == "" {
			continue
		}
		s, err := flags.JSONObject("a solution", line)
		if err == nil {
			return s, false, nil
		}
		if !w.asks {
			return nil, false, fmt.Errorf("line %.80q of standard input: %w", line, err)
		}
		output.Tell(w.cmd.ErrOrStderr(), "%s\n", err)
	}
}

// ask shows a person what to type.
func (w *walk) ask(reply api.StepReply, call nextStep) {
	to := w.cmd.ErrOrStderr()
	output.Tell(to, "\nStep %d of %d, challenge %s:\n%s\n", reply.StepIndex, reply.StepCount, reply.Challenge.Type, output.Quotation(output.Commands(reply.Challenge.Description)))
	if len(reply.Challenge.Display) > 0 {
		output.Tell(to, "  %s\n", reply.Challenge.Display)
	}
	output.Tell(to, "Type the solution as JSON on one line, such as\n  %s\nor nothing to stop here.\n> ", call.form(reply.Challenge))
}

// line reads a line. A person may think for long, and an interrupt ends that:
// the read itself lasts until the program ends.
func (w *walk) line(ctx context.Context) (string, error) {
	type read struct {
		line string
		err  error
	}
	got := make(chan read, 1)
	go func() {
		if w.lines.Scan() {
			got <- read{line: strings.TrimSpace(w.lines.Text())}
			return
		}
		err := w.lines.Err()
		if err == nil {
			err = io.EOF
		}
		got <- read{err: err}
	}()
	select {
	case r := <-got:
		return r.line, r.err
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

// show prints a reply; for people only what they have not read yet.
func (w *walk) show(reply api.StepReply) error {
	if !w.out.ForPeople() {
		if w.out == output.FormatYAML {
			fmt.Fprintln(w.cmd.OutOrStdout(), "---")
		}
		return printStep(w.cmd, w.out, reply, w.url)
	}
	key := reply.RunID + reply.CurrentStep.URI
	if key == w.shown || reply.CurrentStep.Content == "" {
		return nil
	}
	p := &output.Printer{W: w.cmd.OutOrStdout()}
	if w.shown != "" {
		p.Printf("\n")
	}
	w.shown = key
	p.Document(plain.Text(reply.CurrentStep.Content))
	return p.Err
}

// finish says how to close the run.
func (w *walk) finish(reply api.StepReply) error {
	if !w.out.ForPeople() {
		return nil
	}
	p := &output.Printer{W: w.cmd.OutOrStdout()}
	p.Printf("\n%s", output.Lines(continuation(reply, w.url)))
	return p.Err
}

// stopped is why the walk cannot continue.
func (w *walk) stopped(reply api.StepReply) error {
	err := runError(reply)
	switch reply.ErrorCode {
	case string(fault.WaitingForDriver):
		return fmt.Errorf("%w\n  here: continue later with `kairos runs next %s --follow%s`", err, reply.CurrentStep.URI, runOptions(reply, w.url))
	case string(fault.WaitingForUser):
		return fmt.Errorf("%w\n  here: once the person has answered, continue with `kairos runs next %s --follow%s`", err, reply.CurrentStep.URI, runOptions(reply, w.url))
	}
	return err
}

// mayContinue reports whether another solution may be submitted: nothing is
// wrong, or the reply invites to try again. A declined approval is not retried.
func mayContinue(reply api.StepReply) bool {
	if reply.ErrorCode == "" {
		return true
	}
	return reply.MustObey && reply.ErrorCode != string(fault.UserDeclined) && reply.ErrorCode != string(fault.WaitingForUser) &&
		strings.HasPrefix(reply.NextAction, "retry kairos_next with ")
}

// nextStep is the call that a reply asks for.
type nextStep struct {
	tool, uri string
	solution  json.RawMessage // its template; nil: none
}

// callAfter reads next_call.
func callAfter(reply api.StepReply) nextStep {
	next := nextStep{tool: "kairos_next", uri: reply.CurrentStep.URI}
	if reply.NextCall == nil {
		return next
	}
	var arguments struct {
		URI      string          `json:"uri"`
		Solution json.RawMessage `json:"solution"`
	}
	if json.Unmarshal(reply.NextCall.Arguments, &arguments) == nil && arguments.URI != "" {
		next = nextStep{tool: reply.NextCall.Tool, uri: arguments.URI, solution: arguments.Solution}
	}
	return next
}

// unaided: the template is to be sent as it is, because it has no place for
// evidence.
func (n nextStep) unaided() bool {
	var fields map[string]json.RawMessage
	if json.Unmarshal(n.solution, &fields) != nil || fields == nil {
		return false
	}
	for key := range fields {
		if !slices.Contains(envelope, key) {
			return false
		}
	}
	return true
}

// form is the template as a person fills it in, without what is filled in for
// them.
func (n nextStep) form(c api.Challenge) string {
	fields := map[string]any{} // not raw: < and > stand as they are
	if json.Unmarshal(n.solution, &fields) != nil || n.unaided() {
		fields = map[string]any{c.Type: map[string]any{}}
	}
	for _, key := range envelope {
		delete(fields, key)
	}
	for key, field := range fields {
		fields[key] = api.ShapeIn(field)
	}
	b, err := api.Encode(fields, "")
	if err != nil {
		return "{}"
	}
	return string(b)
}

// envelope are the members of a solution that say which challenge it is for.
var envelope = []string{"type", "nonce", "proof_hash"}

// submit submits a solution, if there is one. If it leaves out type, nonce or proof_hash, they
// are filled in from the open challenge, at which submit looks first: without a nonce the
// server shows the step, uses no evidence and counts nothing.
func submit(ctx context.Context, t api.Transport, in api.NextRequest, solutions []json.RawMessage) (api.StepReply, error) {
	if len(solutions) == 0 {
		return api.Next.Call(ctx, t, in)
	}
	given := solutions[0]
	if isWhole(given) {
		in.Solution = given
		return api.Next.Call(ctx, t, in)
	}
	var err error
	if in.Solution, err = withoutNonce(given); err != nil {
		return api.StepReply{}, err
	}
	open, err := api.Next.Call(ctx, t, in)
	if err != nil || open.ErrorCode == "" || open.ErrorCode == string(fault.WaitingForUser) || open.Challenge.Nonce == "" {
		return open, err // the server was to obtain the proof itself, or cannot continue
	}
	if named := textOf(in.Solution, "type"); named != "" && textOf(given, "type") == "" && named != open.Challenge.Type {
		return api.StepReply{}, fault.New(fault.TypeMismatch, "the open challenge is of type %q, and the solution holds %q: nothing was submitted or counted", open.Challenge.Type, named)
	}
	if in.Solution, err = filledIn(given, open.Challenge); err != nil {
		return api.StepReply{}, err
	}
	in.RunID = open.RunID
	return api.Next.Call(ctx, t, in)
}

// isWhole reports whether a solution leaves nothing out that could be filled in.
func isWhole(solution json.RawMessage) bool {
	return !slices.ContainsFunc(envelope, func(key string) bool { return textOf(solution, key) == "" })
}

// withoutNonce is a solution as it is sent to look at the open step: with its type, or that
// of its only evidence; nil: it has none.
func withoutNonce(solution json.RawMessage) (json.RawMessage, error) {
	fields, err := membersOf(solution)
	if err != nil {
		return nil, err
	}
	if textOf(solution, "type") == "" {
		var types []string
		for key := range fields {
			if key != "evidence" && !slices.Contains(envelope, key) {
				types = append(types, key)
			}
		}
		if len(types) != 1 {
			return nil, nil
		}
		if fields["type"], err = json.Marshal(types[0]); err != nil {
			return nil, err
		}
	}
	delete(fields, "nonce")
	return json.Marshal(fields)
}

// filledIn is the solution with what it leaves out of type, nonce and proof_hash.
func filledIn(raw json.RawMessage, c api.Challenge) (json.RawMessage, error) {
	fields, err := membersOf(raw)
	if err != nil {
		return nil, err
	}
	for key, value := range map[string]string{"type": c.Type, "nonce": c.Nonce, "proof_hash": c.ProofHash} {
		if textOf(raw, key) != "" || value == "" {
			continue
		}
		b, err := json.Marshal(value)
		if err != nil {
			return nil, err
		}
		fields[key] = b
	}
	return json.Marshal(fields)
}

func membersOf(solution json.RawMessage) (map[string]json.RawMessage, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(solution, &fields); err != nil {
		return nil, fmt.Errorf("the solution must be a JSON object: %w", err)
	}
	return fields, nil
}

// textOf is a member of a JSON object that is a string, or empty.
func textOf(raw json.RawMessage, key string) string {
	var fields map[string]json.RawMessage
	var s string
	if json.Unmarshal(raw, &fields) != nil || json.Unmarshal(fields[key], &s) != nil {
		return ""
	}
	return s
}
