package drivertest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// counter is the sound challenge driver of the kit's own tests: the evidence
// is a number of at least min, asked for in two rounds with a note. Each fault
// is named like the check that has to find it, and breaks that rule alone.
type counter struct {
	fault string
	min   atomic.Int64
	calls atomic.Int64
	leak  atomic.Int64
	// leaked ends the goroutines of a fault.
	leaked chan struct{}

	mu   sync.Mutex // guards the fields below
	last string
	row  int
	open []*os.File
}

// keepOpen opens a file and never closes it.
func (c *counter) keepOpen() {
	f, err := os.Open(os.DevNull)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = append(c.open, f)
}

// inARow counts how often the same request came without another between.
func (c *counter) inARow(req driver.AdvanceRequest) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := fmt.Sprintf("%+v", req); now != c.last {
		c.last, c.row = now, 0
	}
	c.row++
	return c.row
}

const counterSchema = `{"type":"object","additionalProperties":false,"properties":{` +
	`"min":{"type":"integer","minimum":0,"maximum":5},"strict":{"type":"boolean"}}}`

func counterDriver(fault string) driver.Driver {
	d := driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "counter", Version: "1.0.0", Role: driver.RoleChallenge, Handles: []string{"counter"},
			Effect: driver.EffectPure, ConfigSchema: json.RawMessage(counterSchema), StateVersions: []int{1},
			ParamsSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"of":{"type":"string"}}}`),
			OutputSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"number":{"type":"integer"}}}`),
		},
		Challenge: &counter{fault: fault, leaked: make(chan struct{})},
	}
	switch fault {
	case "descriptor/valid":
		d.Descriptor.Version = "one"
	case "challenge/params-schema":
		d.Descriptor.ParamsSchema = json.RawMessage(`{"required":["mass"]}`)
	case "challenge/params-schema, unusable":
		d.Descriptor.ParamsSchema = json.RawMessage(`{"pattern":"("}`)
	}
	return d
}

func (c *counter) Configure(_ context.Context, config json.RawMessage, dryRun bool) ([]driver.Diagnostic, error) {
	var settings struct {
		Min    *int64 `json:"min"`
		Strict *bool  `json:"strict"`
	}
	if len(config) > 0 {
		dec := json.NewDecoder(strings.NewReader(string(config)))
		if c.fault != "config/unknown-key" {
			dec.DisallowUnknownFields()
		}
		if err := dec.Decode(&settings); err != nil && !c.overlooks(err) {
			return []driver.Diagnostic{driver.Problem("", err.Error())}, nil
		}
	}
	if settings.Min != nil && (!dryRun || c.fault == "config/dry-run") {
		c.min.Store(*settings.Min)
	}
	if c.fault == "needs settings" && settings.Min == nil {
		return []driver.Diagnostic{driver.Problem("/min", "is missing")}, nil
	}
	if c.fault == "config/sound" && settings.Min != nil && *settings.Min == 2 {
		return []driver.Diagnostic{driver.Problem("/min", "two is odd")}, nil
	}
	return nil, nil
}

// overlooks are the two faults of a decoder that is not strict.
func (c *counter) overlooks(err error) bool {
	var typed *json.UnmarshalTypeError
	return (c.fault == "config/wrong-type" && errors.As(err, &typed)) ||
		(c.fault == "config/nonsense" && strings.Contains(err.Error(), "EOF"))
}

func (c *counter) CheckHealth(context.Context) error {
	if c.fault == "health/answers" {
		return errors.New("asleep")
	}
	return nil
}

func (c *counter) Validate(_ context.Context, req driver.ValidateRequest) (driver.ValidateResult, error) {
	var challenge map[string]json.RawMessage
	if err := json.Unmarshal(req.Challenge, &challenge); err != nil || challenge == nil {
		return c.garbage()
	}
	found := driver.Problem("/counter", "is missing")
	switch c.fault {
	case "challenge/pointers":
		found.Pointer = "counter"
	case "call/says-why":
		found.Message = ""
	}
	if _, ok := challenge["counter"]; !ok {
		return driver.ValidateResult{Diagnostics: []driver.Diagnostic{found}}, nil
	}
	n, _ := json.Marshal(len(challenge["kept"]) + 1)
	challenge["kept"] = json.RawMessage(`"as it is"`)
	if c.fault == "challenge/normal-form" {
		challenge["kept"] = n
	}
	normal, err := json.Marshal(challenge)
	return driver.ValidateResult{Challenge: normal}, err
}

func (c *counter) garbage() (driver.ValidateResult, error) {
	if c.fault == "challenge/garbage" {
		return driver.ValidateResult{}, errors.New("not an object")
	}
	return driver.ValidateResult{Diagnostics: []driver.Diagnostic{driver.Problem("", "not an object")}}, nil
}

// challengeOf finds out whether a challenge is one at all; long ones are not.
func (c *counter) soundChallenge(raw json.RawMessage) bool {
	var challenge map[string]json.RawMessage
	return len(raw) < 1<<16 && json.Unmarshal(raw, &challenge) == nil && challenge["counter"] != nil
}

func (c *counter) Advance(ctx context.Context, req driver.AdvanceRequest) (driver.AdvanceResult, error) {
	if c.misbehaves(ctx, req); !c.soundChallenge(req.Challenge) {
		return driver.CannotAdvance("the challenge is not valid"), nil
	}
	if v := req.State.Version; v != 0 && v != 1 && c.fault != "challenge/unknown-state" {
		return driver.CannotAdvance("state of another version"), nil
	}
	if c.fault == "call/repeatable" && c.inARow(req) == 10 {
		return driver.CannotAdvance("tired of this request"), nil
	}
	if c.fault == "challenge/unknown-answers" && len(req.Answers) == 2 && req.Answers[1].InputID == "never-asked" {
		return driver.CannotAdvance("too many answers"), nil
	}
	answer, ok := req.Answer("number")
	if !ok {
		return c.need(req), nil
	}
	return c.judge(req, answer)
}

// misbehaves are the faults that do not show in the result.
func (c *counter) misbehaves(ctx context.Context, req driver.AdvanceRequest) {
	_, answered := req.Answer("number")
	switch {
	case c.fault == "call/cancelled" && ctx.Err() != nil:
		<-time.After(200 * time.Millisecond) // the fault: it works on although its context has ended
	case c.fault == "call/no-growth" && answered:
		go func() { <-c.leaked }()
	case c.fault == "call/no-growth, files" && answered:
		c.keepOpen()
	case c.fault == "process/quiet-stdout" && answered:
		_, _ = syscall.Write(1, []byte("judging\n"))
	case c.fault == "call/huge-input" && answered && len(req.Answers[0].Value) > hugeAnswer:
		panic("out of memory")
	case c.fault == "call/concurrent" && answered:
		if c.calls.Add(1) > 1 {
			c.leak.Store(1)
		}
		<-time.After(2 * time.Millisecond) // the fault shows only if calls overlap
		c.calls.Add(-1)
	}
}

// Sizes of evidence that only the kit sends.
const (
	largeAnswer = 5 << 20
	hugeAnswer  = 7 << 20
)

func (c *counter) need(req driver.AdvanceRequest) driver.AdvanceResult {
	in := driver.Input{ID: "number", Kind: driver.KindEvidence, Description: "a number", Schema: json.RawMessage(`{"type":"integer"}`)}
	switch c.fault {
	case "challenge/inputs":
		in.Kind = driver.KindApproval
	case "challenge/description":
		in.Description = " "
	}
	result := driver.Need(in)
	if c.fault == "call/sound-result" && string(req.Challenge) == counterChallenge {
		result = driver.Need(in, in)
	}
	result.State = driver.State{Version: 1, Data: json.RawMessage(`{"asked":true}`)}
	if c.fault == "challenge/state-version" {
		result.State.Version = 2
	}
	return result
}

func (c *counter) judge(req driver.AdvanceRequest, answer driver.Answer) (driver.AdvanceResult, error) {
	if string(answer.Value) == `"no"` {
		return c.declined(req, answer), nil
	}
	var n int64
	if err := json.Unmarshal(answer.Value, &n); err != nil {
		if c.fault == "call/hostile-input" && len(answer.Value) < 100 {
			panic(err)
		}
		if c.fault == "call/size-limits" && len(answer.Value) > largeAnswer {
			return driver.Accept(json.RawMessage(fmt.Sprintf("[%s,%[1]s,%[1]s]", answer.Value)), nil), nil
		}
		return driver.Reject("NOT_A_NUMBER", "send a number"), nil
	}
	if n == 1 { // the sample "too small"
		switch c.fault {
		case "call/pending, pure":
			return driver.AdvanceLater("later", time.Second), nil
		case "call/recover-outcomes, pure":
			return driver.AdvanceUnknown("perhaps"), nil
		case "dies":
			os.Exit(3)
		case "unsound":
			return driver.Reject("too small", "send a larger number"), nil
		case "not UTF-8":
			return driver.Reject("TOO_SMALL", "send a larger number than \xff"), nil
		}
	}
	if c.fault == "call/concurrent" && c.leak.Swap(0) == 1 {
		return driver.CannotAdvance("busy"), nil
	}
	if n < c.min.Load() {
		return driver.Reject("TOO_SMALL", "send a larger number"), nil
	}
	proof := answer.Value
	if c.fault == "call/other-process" {
		proof = json.RawMessage(fmt.Sprint(os.Getpid()))
	}
	output := fmt.Sprintf(`{"number":%d}`, n)
	if c.fault == "challenge/output-schema" {
		output = `{"sum":1}`
	}
	result := driver.Accept(proof, json.RawMessage(output))
	result.Accepted.Observed = c.fault == "challenge/observed"
	return result, nil
}

func (c *counter) declined(req driver.AdvanceRequest, answer driver.Answer) driver.AdvanceResult {
	switch {
	case c.fault == "challenge/declined" && req.Round == 2:
		return driver.Reject("AGAIN", "really?")
	case c.fault == "challenge/no-is-final" && answer.Via == "agent":
		return driver.Accept(json.RawMessage(`true`), nil)
	}
	return driver.Decline("declined")
}

func counterSamples(fault string) []sampleOf {
	challenge := counterChallenge
	says := func(value string) string {
		return fmt.Sprintf(`{"challenge":%s,"round":1,"answers":[{"input_id":"number","value":%s,"provenance":"agent-reported"}]}`, challenge, value)
	}
	out := []sampleOf{
		{"valid", "Validate", `{"challenge":` + challenge + `}`, "valid"},
		{"no counter", "Validate", `{"challenge":{}}`, "invalid"},
		{"first round", "Advance", `{"challenge":` + challenge + `}`, "need_input"},
		{"enough", "Advance", says(`2`), "accepted"},
		{"too small", "Advance", says(`1`), "rejected"},
		{"no", "Advance", says(`"no"`), "declined"},
	}
	switch fault {
	case "sample/outcome":
		out[3].want = "rejected"
	case "call/pending, pure":
		out[4].want = "pending"
	case "call/recover-outcomes, pure":
		out[4].want = "unknown"
	}
	return out
}

const counterChallenge = `{"type":"counter","counter":{"of":"sheep"}}`

type sampleOf struct{ name, method, request, want string }

// plain is a driver that takes no settings and is always healthy.
type plain struct{}

func (plain) Configure(_ context.Context, config json.RawMessage, _ bool) ([]driver.Diagnostic, error) {
	return decoded(config, &struct{}{}), nil
}

func (plain) CheckHealth(context.Context) error { return nil }

// decoded reads a configuration strictly. Without one it reads nothing.
func decoded(config json.RawMessage, settings any) []driver.Diagnostic {
	if len(config) == 0 {
		return nil
	}
	dec := json.NewDecoder(bytes.NewReader(config))
	dec.DisallowUnknownFields()
	if err := dec.Decode(settings); err != nil {
		return []driver.Diagnostic{driver.Problem("", err.Error())}
	}
	return nil
}

// desk is the sound capability driver of the kit's own tests: it asks a person
// with a form. Faults are as those of counter.
type desk struct {
	plain
	fault string
}

func deskDriver(fault string) driver.Driver {
	d := driver.Driver{
		Descriptor: driver.Descriptor{
			Name: "desk", Version: "1.0.0", Role: driver.RoleCapability,
			Handles: []string{driver.KindEvidence, driver.KindApproval}, Effect: driver.EffectPure, AnswersBy: []string{driver.ByForm},
			Features: []string{driver.FeatureHuman}, Needs: []string{driver.NeedElicitationForm},
			ConfigSchema: json.RawMessage(`{"type":"object","additionalProperties":false,"properties":{"polite":{"type":"boolean"}}}`),
		},
		Capability: &desk{fault: fault},
	}
	switch fault {
	case "capability/provenance": // of evidence alone: with approvals the descriptor would be unsound
		d.Descriptor.Features, d.Descriptor.Handles, d.Descriptor.AnswersBy = nil, []string{driver.KindEvidence}, nil
	case "capability/how":
		d.Descriptor.AnswersBy = []string{driver.ByForm, "signature"}
	}
	return d
}

func (d *desk) Configure(_ context.Context, config json.RawMessage, _ bool) ([]driver.Diagnostic, error) {
	var settings struct {
		Polite bool `json:"polite"`
	}
	return decoded(config, &settings), nil
}

func (d *desk) Render(_ context.Context, req driver.RenderRequest) (driver.RenderResult, error) {
	in, c := req.Input, req.Client
	switch {
	case d.fault == "capability/other-kinds" && in.Kind == "kairos-unknown-kind":
		return driver.AskAgent(driver.AgentChallenge{Type: "desk"}), nil
	case in.Kind != driver.KindEvidence && in.Kind != driver.KindApproval:
		return driver.CannotRender("not of my kinds"), nil
	case d.fault == "capability/undeclared" && c.ElicitationURL && !c.ElicitationForm:
		return driver.AskClient("sampling/createMessage", json.RawMessage(`{}`)), nil
	case d.fault == "capability/needs" && !c.ElicitationForm && !c.ElicitationURL && !c.Sampling && !c.Roots:
		return driver.AskAgent(driver.AgentChallenge{Type: "desk"}), nil
	case !c.ElicitationForm:
		return driver.CannotRender("the client has no forms"), nil
	case d.fault == "capability/review" && in.Kind == driver.KindApproval && !d.secret(in):
		return driver.ReviewedByClient("it looks at everything"), nil
	case d.fault == "capability/elsewhere" && in.Kind == driver.KindApproval && !d.secret(in):
		return driver.AnswerElsewhere("somewhere"), nil
	case d.secret(in) && (d.fault != "capability/secrets" || !in.Sensitive):
		return driver.CannotRender("no form asks for a secret"), nil
	}
	return d.form(in)
}

func (d *desk) secret(in driver.Input) bool {
	return in.Sensitive || strings.Contains(string(in.Schema), `"password"`) || strings.Contains(string(in.Schema), "writeOnly")
}

func (d *desk) form(in driver.Input) (driver.RenderResult, error) {
	form := map[string]any{}
	_ = json.Unmarshal(in.Schema, &form) // whatever it is, it has no fields
	if form == nil {
		return driver.CannotRender("that is not a form"), nil
	}
	fields, _ := form["properties"].(map[string]any)
	for _, field := range fields {
		if f, ok := field.(map[string]any); ok && d.fault != "capability/approval-default" {
			delete(f, "default")
		}
	}
	params, err := json.Marshal(map[string]any{"message": in.Description, "requestedSchema": form})
	return driver.AskClient("elicitation/create", params), err
}

func (d *desk) Interpret(_ context.Context, req driver.InterpretRequest) (driver.InterpretResult, error) {
	if req.ClientError != nil {
		if d.fault == "capability/client-error" {
			return driver.Answered(json.RawMessage(`"approved"`), driver.ClientAttested), nil
		}
		return driver.CannotInterpret("the client failed"), nil
	}
	var reply struct {
		Action  string          `json:"action"`
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(req.Raw, &reply); err != nil {
		if d.fault == "capability/any-reply" {
			return driver.InterpretResult{}, err
		}
		return driver.NotAnAnswer(driver.Problem("", "not a reply")), nil
	}
	switch {
	case reply.Action == "decline" && d.fault == "capability/declined" && req.Client.Name == "another-client":
		return driver.LeftOut("who are you"), nil
	case reply.Action == "decline" && (d.fault != "capability/no-is-final" || reply.Content == nil):
		return driver.PersonDeclined("the person declined"), nil
	case reply.Content == nil:
		return driver.NotAnAnswer(driver.Problem("/content", "is missing")), nil
	case d.fault == "capability/provenance, pure":
		return driver.Answered(reply.Content, driver.ServerObserved), nil
	case reply.Action == "accept" || d.fault == "capability/no-is-final":
		return driver.Answered(reply.Content, driver.ClientAttested), nil
	}
	return driver.NotAnAnswer(driver.Problem("/action", "unknown action")), nil
}

func deskSamples(string) []sampleOf {
	const input = `"input":{"id":"evidence","kind":"evidence","description":"How many?","schema":{"type":"object",` +
		`"properties":{"number":{"type":"integer"}},"required":["number"]}}`
	return []sampleOf{
		{"ask", "Render", `{` + input + `,"client":{"elicitation_form":true}}`, "client_request"},
		{"yes", "Interpret", `{` + input + `,"raw":{"action":"accept","content":{"number":4}}}`, "answer"},
		{"no", "Interpret", `{` + input + `,"raw":{"action":"decline"}}`, "declined"},
		{"nonsense", "Interpret", `{` + input + `,"raw":{"action":"maybe"}}`, "not_an_answer"},
	}
}
