package director_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
	"github.com/kairos-mcp/kairos/core/director"
	"github.com/kairos-mcp/kairos/core/fault"
)

func TestFormsAskForWhatTheSchemaSays(t *testing.T) {
	for name, tc := range map[string]struct{ schema, want string }{
		"numbers": {`{"type":"object","properties":{"exit_code":{"type":"integer","description":"exit code\n of the command"},"n":{"type":"number"}},"required":["exit_code"]}`,
			`{"exit_code":"<integer: exit code of the command>","n":"<number, optional: n>"}`},
		"choices":      {`{"type":"object","properties":{"c":{"enum":["a",1]},"k":{"const":true}},"required":["c","k"]}`, `{"c":"<one of \"a\", 1: c>","k":"<exactly true: k>"}`},
		"length":       {`{"type":"object","properties":{"t":{"type":"string","minLength":10,"title":"Text"}},"required":["t"]}`, `{"t":"<string of at least 10 characters: Text>"}`},
		"several":      {`{"type":"object","properties":{"t":{"type":["string","null"]}},"required":["t"]}`, `{"t":"<string or null: t>"}`},
		"nested":       {`{"type":"object","properties":{"o":{"type":"object","properties":{"a":{"type":"array","items":{"type":"string"}}},"required":["a"]}},"required":["o"]}`, `{"o":{"a":["<string: a>"]}}`},
		"free object":  {`{"type":"object","properties":{"o":{"type":"object","additionalProperties":{}}},"required":["o"]}`, `{"o":"<object: o>"}`},
		"first":        {`{"anyOf":[{"type":"object","properties":{"a":{}},"required":["a"]},{"type":"string"}]}`, `{"a":"<anything: a>"}`},
		"reported":     {`{"oneOf":[{"type":"string"},{"x-kairos-agent":true,"type":"object","properties":{"b":{"type":"boolean"}},"required":["b"]}]}`, `{"b":"<boolean: b>"}`},
		"plain":        {`{"type":"string"}`, `"<string: what challenge.description demands>"`},
		"says nothing": {``, `"<anything: what challenge.description demands>"`},
		"true":         {`true`, `"<anything: what challenge.description demands>"`},
		"nonsense":     {`{"type":7,"enum":{},"anyOf":[],"properties":[]}`, `"<anything: what challenge.description demands>"`},
		"endless":      {strings.Repeat(`{"type":"array","items":`, 40) + `{}` + strings.Repeat(`}`, 40), `[[[[[["<array: what challenge.description demands>"]]]]]]`},
		"huge":         {`{"type":"object","properties":{"a":{"enum":["` + strings.Repeat("x", 70) + strings.Repeat(`","`+strings.Repeat("x", 70), 18) + `"]},"b":{}}}`, ``},
	} {
		t.Run(name, func(t *testing.T) {
			got := director.Form(json.RawMessage(tc.schema))
			if tc.want != "" && got != tc.want {
				t.Errorf("form = %s, want %s", got, tc.want)
			}
			if len(got) > 9<<10 {
				t.Errorf("the form has %d bytes", len(got))
			}
		})
	}
}

// templateOf is the solution that a reply's next_call holds.
func templateOf(t *testing.T, call *api.NextCall) (uri, solution string) {
	t.Helper()
	if call == nil || call.Tool != "kairos_next" {
		t.Fatalf("next_call = %+v, want kairos_next", call)
	}
	var args struct {
		URI      string          `json:"uri"`
		Solution json.RawMessage `json:"solution"`
	}
	if err := json.Unmarshal(call.Arguments, &args); err != nil {
		t.Fatal(err)
	}
	return args.URI, string(args.Solution)
}

func TestATemplateSentAsItIsProvesNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.drivers.set("has a form shell", true)
	uris := w.mint(threeSteps)
	shown := w.begin(uris[0])
	uri, template := templateOf(t, shown.NextCall)
	r := w.next(uri, template)
	w.code(r, "MISSING_FIELD")
	w.at(r, uris[0])
	if *r.RetryCount != 0 || !strings.Contains(r.Message, "/shell/ok") || !strings.Contains(r.Message, "/shell/note") {
		t.Errorf("retry_count %d, message %q; want none counted and the places named", *r.RetryCount, r.Message)
	}
	if diff := cmp.Diff(shown.NextCall, r.NextCall); diff != "" {
		t.Errorf("the call changed (-before +after):\n%s", diff)
	}
	if want := "kairos_next with " + uris[0] + " and a solution of type shell"; r.Tried != want {
		t.Errorf("tried = %q, want %q", r.Tried, want)
	}
	half := strings.Replace(template, `"<boolean: ok>"`, "true", 1)
	w.code(w.next(uri, half), "MISSING_FIELD") // what is optional has to go, too
	whole := strings.Replace(half, `"<string, optional: note>"`, `"<b>"`, 1)
	if whole == half {
		t.Fatalf("the template is %s", template)
	}
	if r := w.next(uri, whole); r.ErrorCode != "" {
		t.Fatalf("the filled template is refused: %s %s", r.ErrorCode, r.Message)
	}
}

func TestEveryStepReplySaysWhichRunAndStep(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	begun := w.begin(uris[0])
	wrong := w.next(uris[0], solve(begun, `{"ok":false}`))
	w.code(wrong, "COMMAND_FAILED")
	w.drivers.set("shell", true)
	broken := w.next(uris[0], solve(wrong, `{"ok":true}`))
	w.code(broken, "DRIVER_UNAVAILABLE")
	w.drivers.set("shell", false)
	for name, r := range map[string]*api.StepReply{"begun": begun, "wrong": wrong, "broken": broken} {
		if r.RunID == "" || r.SessionID != r.RunID || r.StepIndex != 1 || r.StepCount != 3 || r.NextCall == nil {
			t.Errorf("%s: run %q, session %q, step %d of %d, call %+v", name, r.RunID, r.SessionID, r.StepIndex, r.StepCount, r.NextCall)
		}
		if (r.ErrorCode != "") != (r.Tried != "") {
			t.Errorf("%s: error_code %q, tried %q", name, r.ErrorCode, r.Tried)
		}
	}
}

func TestNoCallWhereTheAgentHasToChoose(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint(threeSteps)
	r := w.begin(uris[0])
	for range 3 {
		r = w.next(uris[0], solve(r, `{"ok":false}`))
	}
	w.code(r, "MAX_RETRIES_EXCEEDED")
	if r.NextCall != nil || r.MustObey {
		t.Errorf("must_obey %v, next_call %+v", r.MustObey, r.NextCall)
	}
}

func TestAnAttestationIsToBeFilledInToo(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint("# Alone\n\n## Only\n\nDo it.\n")
	r := w.next(uris[0], placeholder(w.begin(uris[0])))
	if r.NextCall == nil || r.NextCall.Tool != "kairos_attest" {
		t.Fatalf("next_call = %+v", r.NextCall)
	}
	var in struct{ URI, Outcome, Message string }
	if err := json.Unmarshal(r.NextCall.Arguments, &in); err != nil {
		t.Fatal(err)
	}
	attest := func(outcome, message string) error {
		_, err := w.Attest(context.Background(), w.caller, api.AttestRequest{URI: in.URI, Outcome: outcome, Message: message, RunID: r.RunID})
		return err
	}
	for _, err := range []error{attest(in.Outcome, "done"), attest("success", in.Message)} {
		if fault.CodeOf(err) != fault.InvalidArgument {
			t.Errorf("Attest with a placeholder = %v", err)
		}
	}
	if err := attest("success", "done"); err != nil {
		t.Error(err)
	}
}

func TestRunInputIsToBeFilledInToo(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint("# Greet\n\n```json\n{\"inputs\":{\"type\":\"object\",\"required\":[\"name\",\"tone\"],\"properties\":{\"name\":{\"type\":\"string\",\"description\":\"Who\"},\"tone\":{\"type\":\"string\"}}}}\n```\n\n## Only\n\nDo it.\n")
	begin := func(input string) *fault.Error {
		t.Helper()
		_, err := w.Begin(context.Background(), w.caller, api.BeginRequest{URI: uris[0], Input: json.RawMessage(input)})
		var f *fault.Error
		if !errors.As(err, &f) {
			t.Fatalf("Begin(%s) = %v, want a fault", input, err)
		}
		return f
	}
	f := begin(`{"tone":"warm"}`)
	want := &fault.Call{Tool: "kairos_begin", Arguments: map[string]any{
		"uri": uris[0], "input": map[string]any{"name": "<string: Who>", "tone": "warm"},
	}}
	if diff := cmp.Diff(want, f.NextCall); f.Code != fault.MissingInput || diff != "" {
		t.Errorf("%s, next_call (-want +got):\n%s", f.Code, diff)
	}
	if f := begin(`{"tone":"warm","name":"<string: Who>"}`); f.Code != fault.InvalidArgument || !strings.Contains(f.Message, "/input/name") {
		t.Errorf("a placeholder as input: %v", f)
	}
}

func TestWhatHasNoFieldOfItsOwnIsEvidence(t *testing.T) {
	w := newWorld(t, func(c *choices) { c.SolutionFields = []string{"mcp"} })
	w.drivers.set("has a form shell", true)
	uris := w.mint(threeSteps)
	begun := w.begin(uris[0])
	_, template := templateOf(t, begun.NextCall)
	var s map[string]json.RawMessage
	if err := json.Unmarshal([]byte(template), &s); err != nil {
		t.Fatal(err)
	}
	if s["shell"] != nil || s["evidence"] == nil {
		t.Errorf("solution = %s, want the form in evidence", template)
	}
	w.code(w.next(uris[0], template), "MISSING_FIELD")
}

func TestNoPlaceholderOfARunInputIsTaken(t *testing.T) {
	long := strings.Repeat("x", 150)
	fields := []string{`"named":{"type":"string","description":"Who"}`}
	for i := range 80 {
		fields = append(fields, fmt.Sprintf(`"k%d":{"type":"string","description":"%s"}`, i, long))
	}
	for what, inputs := range map[string]string{
		"a key without a schema": `{"type":"object","required":["named"],"properties":{"other":{"type":"string"}}}`,
		"a key among very many":  `{"type":"object","required":["named"],"properties":{` + strings.Join(fields, ",") + `}}`,
	} {
		t.Run(what, func(t *testing.T) {
			w := newWorld(t, nil)
			uris := w.mint("# Greet\n\n```json\n{\"inputs\":" + inputs + "}\n```\n\n## Only\n\nDo it.\n")
			_, err := w.Begin(context.Background(), w.caller, api.BeginRequest{URI: uris[0]})
			var f *fault.Error
			if !errors.As(err, &f) || f.Code != fault.MissingInput || f.NextCall == nil {
				t.Fatalf("Begin without input = %v, want MISSING_INPUT with next_call", err)
			}
			copied, err := json.Marshal(f.NextCall.Arguments["input"])
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.Begin(context.Background(), w.caller, api.BeginRequest{URI: uris[0], Input: copied}); fault.CodeOf(err) != fault.InvalidArgument {
				t.Errorf("Begin with next_call as it is = %v, want INVALID_ARGUMENT", err)
			}
		})
	}
}
