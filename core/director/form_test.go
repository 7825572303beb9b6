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
	"github.com/kairos-mcp/kairos/core/fault"
)

func TestATemplateSentAsItIsProvesNothing(t *testing.T) {
	w := newWorld(t, nil)
	w.drivers.set("has a form shell", true)
	uris := w.mint(threeSteps)
	shown := w.begin(uris[0])
	in := w.advised(shown)
	uri, template := in.URI, in.solution(t)
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
	refused(t, attest(in.Outcome, "done"), fault.InvalidArgument)
	refused(t, attest("success", in.Message), fault.InvalidArgument)
	if err := attest("success", "done"); err != nil {
		t.Error(err)
	}
}

func TestRunInputIsToBeFilledInToo(t *testing.T) {
	w := newWorld(t, nil)
	uris := w.mint("# Greet\n\n```json\n{\"inputs\":{\"type\":\"object\",\"required\":[\"name\",\"tone\"],\"properties\":{\"name\":{\"type\":\"string\",\"description\":\"Who\"},\"tone\":{\"type\":\"string\"}}}}\n```\n\n## Only\n\nDo it.\n")
	begin := func(input string) error {
		_, err := w.Begin(t.Context(), w.caller, api.BeginRequest{URI: uris[0], Input: json.RawMessage(input)})
		return err
	}
	err := begin(`{"tone":"warm"}`)
	refused(t, err, fault.MissingInput)
	var f *fault.Error
	errors.As(err, &f)
	want := &fault.Call{Tool: "kairos_begin", Arguments: map[string]any{
		"uri": uris[0], "input": map[string]any{"name": "<string: Who>", "tone": "warm"},
	}}
	if diff := cmp.Diff(want, f.NextCall); diff != "" {
		t.Errorf("next_call (-want +got):\n%s", diff)
	}
	refused(t, begin(`{"tone":"warm","name":"<string: Who>"}`), fault.InvalidArgument, "/input/name")
}

func TestWhatHasNoFieldOfItsOwnIsEvidence(t *testing.T) {
	w := newWorld(t, func(c *choices) { c.SolutionFields = []string{"mcp"} })
	w.drivers.set("has a form shell", true)
	uris := w.mint(threeSteps)
	in := w.advised(w.begin(uris[0]))
	if in.Solution["shell"] != nil || in.Solution["evidence"] == nil {
		t.Errorf("solution = %v, want the form in evidence", in.Solution)
	}
	w.code(w.next(uris[0], in.solution(t)), "MISSING_FIELD")
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
			_, err = w.Begin(context.Background(), w.caller, api.BeginRequest{URI: uris[0], Input: copied})
			refused(t, err, fault.InvalidArgument)
		})
	}
}
