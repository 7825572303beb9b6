package terminal

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

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
