package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/plain"
)

// call is what somebody says about a call of the tool.
type call struct {
	Tool      string          `json:"tool_name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Result    json.RawMessage `json:"result"`
	Success   bool            `json:"success"`
	// Bare: only the result was given, without the envelope around it.
	Bare bool `json:"bare,omitempty"`
	// Observed is what KAIROS recorded of the whole result, of which Result is what
	// the step names.
	Observed json.RawMessage `json:"observed,omitempty"`
	// observed: KAIROS made the call, and the agent has not seen what came back.
	observed bool
}

// proof is recorded for a finished step.
type proof struct {
	Type string `json:"type"`
	call
	// Unreported: the challenge states arguments and the report has none, so
	// nothing was compared.
	Unreported bool   `json:"arguments_not_reported,omitempty"`
	Passed     bool   `json:"passed"`
	Failure    string `json:"failure,omitempty"` // why it did not pass
}

// readCall reads the evidence. A rejection says what is missing in it.
func readCall(answer driver.Answer, p params) (call, *driver.Rejected) {
	o := fields.Open(answer.Value, "/mcp")
	if p.output != nil && answer.Provenance != driver.AgentReported && !isEnvelope(o) {
		return readBare(answer.Value, p)
	}
	c := call{Arguments: o.Raw("arguments"), Result: o.Raw("result")}
	var found bool
	if c.Tool, found = o.String("tool_name"); !found && !o.Has("tool_name") {
		o.Wrong("tool_name", "is missing")
	}
	if c.Success, found = o.Bool("success"); !found && !o.Has("success") {
		o.Wrong("success", "is missing")
	}
	if c.Result == nil {
		o.Wrong("result", "is missing")
	}
	if !o.Has("arguments") {
		c.Arguments = nil
	} else if !isObject(c.Arguments) {
		o.Wrong("arguments", "must be an object")
	}
	if problems := o.Problems(); problems != nil {
		return call{}, incomplete(problems, p)
	}
	c.Result = unquoted(c.Result)
	if answer.Provenance == driver.ServerObserved {
		c.Observed = o.Raw("observed")
	}
	return c, nil
}

// isEnvelope tells the envelope from a bare result that may have a key of the
// same name.
func isEnvelope(o *fields.Object) bool {
	return o.Has("tool_name") && o.Has("success") && o.Raw("result") != nil
}

// readBare reads a result without an envelope, as a model is asked for it when
// the step has an output schema. Whether it matches that schema is judged by
// the host on the output.
func readBare(value json.RawMessage, p params) (call, *driver.Rejected) {
	one, err := fields.DecodeOne(value)
	if err != nil {
		return call{}, incomplete([]driver.Diagnostic{driver.Problem("/mcp", err.Error())}, p)
	}
	c := call{Result: unquoted(one), Success: true, Bare: true}
	if isObject(c.Result) {
		if success, found := fields.Open(c.Result, "").Bool("success"); found {
			c.Success = success
		}
	}
	return c, nil
}

func incomplete(problems []driver.Diagnostic, p params) *driver.Rejected {
	return &driver.Rejected{Code: codeMissing, Retryable: true, Message: fmt.Sprintf(
		"Solution incomplete: %s. Call the MCP tool %s and submit mcp with tool_name, arguments, result and success as they really were; "+
			"do not make them up.", fields.Text(problems), p.Name)}
}

// unquoted decodes a string that holds one JSON object or list: many hosts
// hand the text of a tool's result on as it is.
func unquoted(result json.RawMessage) json.RawMessage {
	var text string
	if result[0] != '"' || json.Unmarshal(result, &text) != nil {
		return result
	}
	inner, err := fields.DecodeOne([]byte(text))
	if err != nil || (inner[0] != '{' && inner[0] != '[') {
		return result
	}
	return inner
}

func judge(c call, p params) (driver.AdvanceResult, error) {
	failure := failureOf(c, p)
	if failure != "" && p.required && c.observed {
		return driver.Reject(codeFailed, failure+". KAIROS called it itself: do not call it. Ask the person to look at the run, and call kairos_next again once the cause is fixed."), nil
	}
	if failure != "" && p.required {
		return driver.Reject(codeFailed, fmt.Sprintf(
			"%s. Find the cause, call the MCP tool %s as the challenge demands and submit its real result; do not fabricate one.",
			failure, p.Name)), nil
	}
	recorded, err := json.Marshal(proof{
		Type: typeName, call: c, Unreported: p.Arguments != nil && c.Arguments == nil, Passed: failure == "", Failure: failure,
	})
	return driver.Accept(recorded, c.output(p)), err
}

// output is what later steps and replies have of the call. Of a call that KAIROS made
// it holds nothing that the step does not name, and no words of a failure.
func (c call) output(p params) json.RawMessage {
	names := p.output != nil || isObject(p.Expected)
	if c.observed && (!c.Success || !names) {
		return orNull(c.Observed)
	}
	return c.Result
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

// beyond says what a call did that was not approved; empty: nothing. An approval
// is for exactly the arguments that the challenge states. Of a bare result
// nothing is known but the result, and its proof says so.
func beyond(c call, p params) string {
	const again = "Only the approved call counts, and another one has to be approved first."
	if p.Arguments == nil || c.Bare {
		return ""
	}
	if c.Arguments == nil {
		return fmt.Sprintf("The call of %s was approved with the arguments that the challenge states, and the report leaves its arguments out. %s", p.Name, again)
	}
	if where, ok := subset(p.Arguments, c.Arguments); !ok {
		return fmt.Sprintf("The tool %s was called with other arguments than were approved: %s differs. %s", p.Name, "arguments"+where, again)
	}
	if where, ok := subset(c.Arguments, p.Arguments); !ok {
		return fmt.Sprintf("The tool %s was called with more arguments than were approved: %s is not one of them. %s", p.Name, "arguments"+where, again)
	}
	return ""
}

func failureOf(c call, p params) string {
	if !c.Bare && !sameTool(p.Name, c.Tool) {
		return fmt.Sprintf("The tool %q was called instead of %q", cut(c.Tool, 200), p.Name)
	}
	if !c.Success && c.observed {
		// The text is that of a stranger, and may tell an agent what to do.
		return fmt.Sprintf("The tool %s reported a failure, in words that only people are shown", p.Name)
	}
	if !c.Success {
		return fmt.Sprintf("The tool %s reported a failure: %s", p.Name, cut(errorText(c.Result), 1000))
	}
	if p.Arguments != nil && c.Arguments != nil {
		if where, ok := subset(p.Arguments, c.Arguments); !ok {
			return fmt.Sprintf("The tool %s was called with other arguments than demanded: %s differs from what the challenge says", p.Name, "arguments"+where)
		}
	}
	if isObject(p.Expected) {
		if where, ok := subset(p.Expected, c.Result); !ok {
			return fmt.Sprintf("The result of %s is not the expected one: %s differs from what the challenge says", p.Name, "result"+where)
		}
	}
	return ""
}

// errorText is what a failed result says of its cause.
func errorText(result json.RawMessage) string {
	if isObject(result) {
		o := fields.Open(result, "")
		for _, key := range []string{"error", "message"} {
			if text, found := o.String(key); found {
				return text
			}
		}
	}
	var text string
	if json.Unmarshal(result, &text) == nil && text != "" {
		return text
	}
	return string(result)
}

// sameTool compares tool names; the server's name that hosts put in front of
// them ("mcp__calendar__find_slot", "calendar:find_slot", ...) does not count.
func sameTool(want, got string) bool {
	wanted, shown := namesOf(want), namesOf(plain.Text(want)) // agents are shown the latter
	for name := range namesOf(got) {
		if wanted[name] || shown[name] {
			return true
		}
	}
	return false
}

// bareName is the shortest of a tool's names, without any server's name in front.
func bareName(name string) string {
	return slices.MinFunc(slices.Collect(maps.Keys(namesOf(name))), func(a, b string) int { return len(a) - len(b) })
}

// namesOf returns the name and each of its ends behind a separator.
func namesOf(name string) map[string]bool {
	name = strings.TrimSpace(name)
	names := map[string]bool{}
	if name != "" {
		names[name] = true
	}
	for _, separator := range []string{"__", ".", ":", "/"} {
		rest := name
		for {
			_, after, found := strings.Cut(rest, separator)
			if !found {
				break
			}
			if after != "" {
				names[after] = true
			}
			rest = after
		}
	}
	return names
}

// subset reports whether want is contained in got: objects key by key, lists
// element by element, all else by value. If not, where points to the first
// difference below got.
func subset(want, got json.RawMessage) (where string, ok bool) {
	w, err := decode(want)
	if err != nil {
		return "", false
	}
	g, err := decode(got)
	if err != nil {
		return "", false
	}
	return contains(w, g, "")
}

func decode(raw json.RawMessage) (v any, err error) {
	if raw, err = fields.DecodeOne(raw); err != nil {
		return nil, err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	err = dec.Decode(&v)
	return v, err
}

func contains(want, got any, path string) (string, bool) {
	switch w := want.(type) {
	case map[string]any:
		g, isMap := got.(map[string]any)
		if !isMap {
			return path, false
		}
		return containsKeys(w, g, path)
	case []any:
		g, isList := got.([]any)
		if !isList || len(g) != len(w) {
			return path, false
		}
		for i := range w {
			if where, ok := contains(w[i], g[i], fmt.Sprintf("%s/%d", path, i)); !ok {
				return where, false
			}
		}
		return "", true
	case json.Number:
		g, isNumber := got.(json.Number)
		return path, isNumber && sameNumber(w, g)
	case string:
		g, isText := got.(string)
		return path, isText && (w == g || plain.Text(w) == g) // agents are shown the one, tools get the other
	}
	return path, want == got
}

func containsKeys(want, got map[string]any, path string) (string, bool) {
	first := ""
	for key, w := range want {
		below := path + fields.Pointer(key)
		g, found := got[key]
		where, ok := below, false
		if found {
			where, ok = contains(w, g, below)
		}
		if !ok && (first == "" || where < first) { // the same words for the same evidence
			first = where
		}
	}
	return first, first == ""
}

// sameNumber compares exactly; DecodeOne has bounded the literals.
func sameNumber(a, b json.Number) bool {
	x, okX := new(big.Rat).SetString(a.String())
	y, okY := new(big.Rat).SetString(b.String())
	return okX && okY && x.Cmp(y) == 0
}
