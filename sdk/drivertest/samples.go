package drivertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

// SampleFile is what a file of samples holds.
type SampleFile struct {
	// Config is the configuration under which the samples hold, or empty.
	Config  json.RawMessage
	Samples []Sample
}

type writtenFile struct {
	Config  json.RawMessage `json:"config"`
	Samples []writtenSample `json:"samples"`
}

type writtenSample struct {
	Name    string          `json:"name"`
	Method  string          `json:"method"`
	Request json.RawMessage `json:"request"`
	Want    Outcome         `json:"want"`
}

// requestOf makes the request of a method; the outcomes are those it can have.
var requestOf = map[string]struct {
	decode   func(json.RawMessage) (any, error)
	outcomes []Outcome
}{
	"Validate":  {decodeStrict[driver.ValidateRequest], []Outcome{Valid, Invalid}},
	"Interpret": {decodeStrict[driver.InterpretRequest], []Outcome{Answer, Declined, NotAnswer, Unavailable, Missing, Dismissed}},
	"Advance":   {decodeStrict[driver.AdvanceRequest], []Outcome{NeedInput, Accepted, Rejected, Declined, Unavailable, Pending, Unknown, NotDone}},
	"Render":    {decodeStrict[driver.RenderRequest], []Outcome{ClientRequest, AgentChallenge, Answer, Unavailable, ClientReview, Elsewhere, NotAnswer, Pending, Unknown, NotDone}},
}

// LoadSamples reads a file of samples. Unknown keys are errors.
func LoadSamples(path string) (SampleFile, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return SampleFile{}, fmt.Errorf("read the samples: %w", err)
	}
	file, err := ParseSamples(raw)
	if err != nil {
		return SampleFile{}, fmt.Errorf("samples in %s: %w", path, err)
	}
	return file, nil
}

// ParseSamples reads the text of a file of samples.
func ParseSamples(raw []byte) (SampleFile, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return SampleFile{}, errors.New(`the file is empty; it must be an object with "config" and "samples"`)
	}
	if raw = bytes.TrimSpace(raw); raw[0] == '[' || raw[0] == '"' || raw[0] == 'n' {
		return SampleFile{}, errors.New(`it must be an object with "config" and "samples"`)
	}
	var written writtenFile
	if err := strict(raw, &written); err != nil {
		return SampleFile{}, err
	}
	out := SampleFile{Config: written.Config}
	var errs []error
	for i, w := range written.Samples {
		sample, err := w.sample()
		if err == nil && slices.ContainsFunc(out.Samples, func(s Sample) bool { return s.Name == w.Name }) {
			err = errors.New("the name is there twice; results are named after it")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("sample %d %q: %w", i+1, w.Name, err))
		}
		out.Samples = append(out.Samples, sample)
	}
	return out, errors.Join(errs...)
}

func (w writtenSample) sample() (Sample, error) {
	method, ok := requestOf[w.Method]
	switch {
	case w.Name == "":
		return Sample{}, errors.New("it has no name")
	case !ok:
		return Sample{}, fmt.Errorf("method %q is not Validate, Advance, Render or Interpret", w.Method)
	case w.Want != Any && !slices.Contains(method.outcomes, w.Want):
		return Sample{}, fmt.Errorf("want %q is not an outcome of %s; those are %v", w.Want, w.Method, method.outcomes)
	case len(w.Request) == 0:
		return Sample{}, errors.New("it has no request")
	}
	request, err := method.decode(w.Request)
	if err != nil {
		return Sample{}, fmt.Errorf("request: %w", err)
	}
	return Sample{Name: w.Name, Request: request, Want: w.Want}, nil
}

func decodeStrict[Req any](raw json.RawMessage) (any, error) {
	var req Req
	err := strict(raw, &req)
	return req, err
}

// strict decodes exactly one value without unknown keys.
func strict(raw []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	var typed *json.UnmarshalTypeError
	switch err := dec.Decode(v); {
	case errors.As(err, &typed) && typed.Field != "": // its own text names Go types
		return fmt.Errorf("%q cannot be of type %s", typed.Field, typed.Value)
	case errors.As(err, &typed):
		return fmt.Errorf("it is of type %s, and must be an object", typed.Value)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the JSON ends too early")
	case err != nil:
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is something behind the JSON value")
	}
	return nil
}

// derive adds the requests that can be made up from the descriptor, where no
// sample has the method (and, of a capability driver, the kind of input). What
// they come to is open.
func (s Subject) derive() Subject {
	have := map[string]bool{}
	for _, sample := range s.Samples {
		have[sortOf(sample.Request)] = true
	}
	s.derived, s.found = nil, &found{}
	for _, sample := range derivedSamples(s.Descriptor) {
		if !have[sortOf(sample.Request)] {
			s.derived = append(s.derived, sample)
		}
	}
	return s.keyed()
}

func sortOf(request any) string {
	switch req := request.(type) {
	case driver.RenderRequest:
		return "Render " + req.Input.Kind
	case driver.InterpretRequest:
		return "Interpret " + req.Input.Kind
	}
	return fmt.Sprintf("%T", request)
}

func derivedSamples(d driver.Descriptor) []Sample {
	var out []Sample
	client := ableClient(d)
	for _, handled := range d.Handles {
		if d.Role == driver.RoleChallenge {
			challenge := json.RawMessage(printed(map[string]any{"type": handled, handled: map[string]any{}}))
			out = append(out, Sample{Name: "derived Validate of " + handled, Request: driver.ValidateRequest{Challenge: challenge}})
			continue
		}
		in := standardInput(handled)
		out = append(out,
			Sample{Name: "derived Render of " + handled, Request: driver.RenderRequest{
				How: waysFor(d, in), Input: in, Step: standardStep, Client: client, Links: driver.Links{Approval: "https://kairos.example/approve"}}},
			Sample{Name: "derived Interpret of " + handled, Request: driver.InterpretRequest{
				Input: in, Step: standardStep, Client: client, Raw: json.RawMessage(`{}`)}})
	}
	return out
}

// waysFor are the ways in which the driver may answer the input.
func waysFor(d driver.Descriptor, in driver.Input) []string {
	if in.Kind != driver.KindApproval {
		return nil
	}
	return d.AnswersBy
}

var (
	standardStep   = driver.Step{Protocol: "Sample", Label: "First step", Text: "Do it.", Index: 1, Count: 1}
	approvalSchema = json.RawMessage(`{"type":"object","properties":{"confirmation":{"type":"string",` +
		`"enum":["approved","rejected"]}},"required":["confirmation"],"additionalProperties":false}`)
	textSchema = json.RawMessage(`{"type":"object","properties":{"text":{"type":"string"}},` +
		`"required":["text"],"additionalProperties":false}`)
)

// ableClient is a client that declared all that the driver may need of one.
func ableClient(d driver.Descriptor) driver.Client {
	capabilities := map[string]any{"elicitation": map[string]any{"form": map[string]any{}, "url": map[string]any{}},
		"sampling": map[string]any{}, "roots": map[string]any{}}
	pointers := slices.Clone(d.Needs)
	for _, m := range d.Sends {
		pointers = append(pointers, m.Needs...)
	}
	for _, need := range pointers {
		if pointer, ok := driver.CapabilityPointer(need); ok {
			driver.DeclareCapability(capabilities, pointer)
		}
	}
	return driver.Client{Name: "kairos-driver-test", Version: "1.0.0", Era: "2025-11-25", Transport: "stdio",
		ElicitationForm: true, ElicitationURL: true, Sampling: true, Roots: true, Capabilities: json.RawMessage(printed(capabilities))}
}

// standardInput is an input of a kind as the host or a plain driver makes it.
func standardInput(kind string) driver.Input {
	in := driver.Input{ID: kind, Kind: kind, Description: "What is it?", User: "What is it?", Schema: textSchema}
	if kind == driver.KindApproval {
		in.Schema, in.Person, in.Approval = approvalSchema, true, driver.ApprovalUser
	}
	return in
}
