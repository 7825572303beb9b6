package terminal

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/sdk/fields"
)

var uriPattern = regexp.MustCompile(`^kairos://mem/[0-9a-fA-F-]{36}$`)

// Error codes of replies that continue. The server still waits: for the person's
// answer, or for a driver.
const (
	codeWaiting       = "WAITING_FOR_USER"
	codeWaitingDriver = "WAITING_FOR_DRIVER"
	// codeMissingField: nobody but the agent can do what is due.
	codeMissingField = "MISSING_FIELD"
)

// stepReply is what begin and next answer.
type stepReply struct {
	MustObey    bool `json:"must_obey"`
	CurrentStep struct {
		URI     string `json:"uri"`
		Content string `json:"content"`
	} `json:"current_step"`
	Challenge  challenge `json:"challenge"`
	NextAction string    `json:"next_action"`
	// ApprovalURL is where a person may answer.
	ApprovalURL string `json:"approval_url"`
	// NextCall is NextAction for programs.
	NextCall struct {
		Tool      string `json:"tool"`
		Arguments struct {
			URI      string                     `json:"uri"`
			Solution map[string]json.RawMessage `json:"solution"`
		} `json:"arguments"`
	} `json:"next_call"`
	ProofHash string   `json:"proof_hash"`
	Message   string   `json:"message"`
	ErrorCode string   `json:"error_code"`
	RunID     string   `json:"run_id"`
	StepIndex int      `json:"step_index"`
	StepCount int      `json:"step_count"`
	Solved    []Solved `json:"solved"`
}

// challenge is the open step's challenge; Display is the object under the key
// that Type names.
type challenge struct {
	Type        string
	Description string
	Nonce       string
	ProofHash   string
	Display     json.RawMessage
}

// UnmarshalJSON reads the object with its open key.
func (c *challenge) UnmarshalJSON(data []byte) error {
	var known struct {
		Type        string `json:"type"`
		Description string `json:"description"`
		Nonce       string `json:"nonce"`
		ProofHash   string `json:"proof_hash"`
	}
	if err := json.Unmarshal(data, &known); err != nil {
		return err
	}
	var open map[string]json.RawMessage
	if err := json.Unmarshal(data, &open); err != nil {
		return err
	}
	*c = challenge{known.Type, known.Description, known.Nonce, known.ProofHash, nil}
	if known.Type != "" {
		c.Display = open[known.Type]
	}
	return nil
}

// placeholder asks the server to fill the solution in.
func (c challenge) placeholder() map[string]any {
	s := map[string]any{"type": c.Type, "proof_hash": c.ProofHash}
	if c.Nonce != "" {
		s["nonce"] = c.Nonce
	}
	return s
}

// solution is the placeholder with the agent's work in it.
func (c challenge) solution(key string, work any) map[string]any {
	s := c.placeholder()
	s[key] = work
	return s
}

// nextCall is the call that continues the run: kairos_next with a step, or the
// attestation.
func (r stepReply) nextCall() (uri string, attest bool, err error) {
	uri = r.NextCall.Arguments.URI
	switch r.NextCall.Tool {
	case "kairos_next":
		return uri, false, nil
	case "kairos_attest":
		return uri, true, nil
	}
	return "", false, &StopError{
		Code: StopNoNextAction, Message: "the reply names no call that continues the run", NextAction: r.NextAction,
	}
}

// waitsAtAddress: the server waits for a person, who may answer at ApprovalURL. The
// reply to a form that is still open has an address, too.
func (r stepReply) waitsAtAddress() bool { return r.ErrorCode == codeWaiting && r.ApprovalURL != "" }

// leftToServer: the next call has a placeholder, nothing to fill in: the server
// obtains what is due, such as an approval, and no work is to be done yet.
func (r stepReply) leftToServer() bool {
	solution := r.NextCall.Arguments.Solution
	_, named := solution["type"]
	_, fresh := solution["nonce"]
	return len(solution) == 2 && named && fresh
}

// heading splits the content of the open step: its title, and the rest.
func (r stepReply) heading() (title, body string) {
	first, rest, _ := strings.Cut(strings.TrimSpace(r.CurrentStep.Content), "\n")
	title = strings.TrimSpace(strings.TrimLeft(clip(first), "#"))
	if !strings.HasPrefix(first, "#") {
		rest = r.CurrentStep.Content
	}
	return title, strings.TrimSpace(rest)
}

// payload is a tool result's object: structuredContent, else its text.
func payload(res *mcp.CallToolResult) (json.RawMessage, error) {
	if raw := res.RawStructuredContent; len(raw) > 0 && string(raw) != "null" {
		return raw, nil
	}
	text := resultText(res)
	if !json.Valid([]byte(text)) {
		return nil, fmt.Errorf("result is not JSON: %q", clip(text))
	}
	return json.RawMessage(text), nil
}

func resultText(res *mcp.CallToolResult) string {
	var parts []string
	for _, c := range res.Content {
		if text := mcp.GetTextFromContent(c); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "\n")
}

// toolFailure turns a result with isError into a StopError.
func toolFailure(tool string, res *mcp.CallToolResult) error {
	stop := &StopError{Code: StopFailed, Message: tool + ": " + clip(resultText(res))}
	var body struct {
		Error      string `json:"error"`
		ErrorCode  string `json:"error_code"`
		Message    string `json:"message"`
		NextAction string `json:"next_action"`
	}
	raw, err := payload(res)
	if err != nil || json.Unmarshal(raw, &body) != nil {
		return stop
	}
	for _, code := range []string{body.Error, body.ErrorCode} {
		if code != "" {
			stop.Code = code
		}
	}
	if body.Message != "" {
		stop.Message = tool + ": " + clip(body.Message)
	}
	stop.NextAction = body.NextAction
	return stop
}

// decode reads one JSON value. Numbers keep all their digits, as a float64 does not.
func decode(raw []byte, into any) error {
	one, err := fields.DecodeOne(raw)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(one))
	d.UseNumber()
	return d.Decode(into)
}

func decodeReply(raw json.RawMessage) (stepReply, error) {
	var r stepReply
	if err := json.Unmarshal(raw, &r); err != nil {
		return stepReply{}, fmt.Errorf("decode the server's reply: %w", err)
	}
	if r.NextAction == "" && r.ErrorCode == "" {
		return stepReply{}, errors.New("the server's reply has neither next_action nor error_code")
	}
	return r, nil
}

// clip bounds what an error message quotes.
func clip(text string) string {
	return clipTo(text, 800)
}

func clipTo(text string, limit int) string {
	runes := []rune(text)
	if len(runes) <= limit {
		return text
	}
	return string(runes[:limit]) + "…"
}

// errRefused: the person refused a sampling request, or the work itself.
var errRefused = errors.New("the person refused")

// userRejected is the code by which a client says that the person refused.
const userRejected = -1

// child is a stdio server to start.
type child struct {
	argv    []string
	env     []string // added to the environment of this process
	log     io.Writer
	version string // of MCP; "" means the newest that both speak
	options []client.ClientOption
	elicits *mcp.ElicitationCapability // nil: what the options say
}

// connect starts the server and shakes hands. Close of the client stops it.
func connect(ctx context.Context, c child) (*client.Client, error) {
	stdio := transport.NewStdioWithOptions(c.argv[0], c.env, c.argv[1:],
		transport.WithCommandFunc(command), transport.WithCommandStderrWriter(orDiscard(c.log)))
	options := c.options
	if c.version != "" {
		options = append(options, client.WithProtocolVersion(c.version))
	}
	cl := client.NewClient(refusing{stdio}, options...)
	if err := cl.Start(ctx); err != nil {
		return nil, fmt.Errorf("start %s: %w", c.argv[0], err)
	}
	var init mcp.InitializeRequest
	init.Params.ProtocolVersion = c.version
	init.Params.Capabilities.Elicitation = c.elicits
	init.Params.ClientInfo = mcp.Implementation{Name: "kairos-run", Version: "0.1.0"}
	if _, err := cl.Initialize(ctx, init); err != nil {
		if ctx.Err() == nil && hasEnded(err) {
			return nil, errors.Join(fmt.Errorf("%s did not start; what it wrote to standard error says why", c.argv[0]), closeClient(cl))
		}
		return nil, errors.Join(fmt.Errorf("initialize %s: %w", c.argv[0], cause(ctx, err)), closeClient(cl))
	}
	if c.version != "" && cl.ProtocolVersion() != c.version {
		return nil, errors.Join(
			fmt.Errorf("%s speaks MCP %s, not %s", c.argv[0], cl.ProtocolVersion(), c.version), closeClient(cl))
	}
	return cl, nil
}

// hasEnded reports whether a call failed because the server has ended: before it
// read the request, or before it answered.
func hasEnded(err error) bool {
	return errors.Is(err, transport.ErrTransportClosed) || errors.Is(err, syscall.EPIPE) || errors.Is(err, os.ErrClosed)
}

// command makes the server's process: without our secrets, and in a group of
// its own, so that an interrupt at the terminal reaches only us.
func command(ctx context.Context, name string, env, args []string) (*exec.Cmd, error) {
	// The end of ctx must not kill it: closing its input lets it finish.
	cmd := exec.CommandContext(context.WithoutCancel(ctx), name, args...)
	cmd.Env = append(Environment(), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return cmd, nil
}

// Environment is ours without the model's key.
func Environment() []string {
	var kept []string
	for _, entry := range os.Environ() {
		if !strings.HasPrefix(entry, KeyEnv+"=") {
			kept = append(kept, entry)
		}
	}
	return kept
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// closeClient stops a server. How it exited after its input closed is its own
// affair.
func closeClient(c *client.Client) error {
	var exit *exec.ExitError
	if err := c.Close(); err != nil && !errors.As(err, &exit) {
		return fmt.Errorf("stop server: %w", err)
	}
	return nil
}

// cause is why the context ended, if it did, else the error.
func cause(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// refusing is a stdio connection that tells the server of a refusal with the
// code meant for it; mcp-go alone makes every error of a handler an internal one.
type refusing struct{ *transport.Stdio }

// SetRequestHandler wraps the handler.
func (r refusing) SetRequestHandler(handle transport.RequestHandler) {
	r.Stdio.SetRequestHandler(func(ctx context.Context, req transport.JSONRPCRequest) (*transport.JSONRPCResponse, error) {
		res, err := handle(ctx, req)
		if errors.Is(err, errRefused) {
			return transport.NewJSONRPCErrorResponse(req.ID, userRejected, "User rejected the request", nil), nil
		}
		return res, err
	})
}
