package api_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
)

func TestALongTextIsSetOut(t *testing.T) {
	long := strings.Repeat("x", 5000)
	for name, tc := range map[string]struct {
		value any
		lines int
	}{
		"a short reply":     {api.StepReply{Message: "short"}, 1},
		"a long reply":      {map[string]any{"a": "1,2", "b": []int{1, 2}, "c": map[string]any{"d": 1, "e": `"{[,`}, "f": long}, 6},
		"escapes":           {map[string]any{"a": `\`, "b": `\\"`, "c": long + `\"`}, 5},
		"a long list":       {[]string{long}, 1},
		"one long member":   {map[string]any{"a": long}, 3},
		"objects in a list": {map[string]any{"a": []any{map[string]any{"b": 1, "c": 2}}, "d": long}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			b, err := api.Encode(tc.value, "")
			if err != nil {
				t.Fatal(err)
			}
			set := api.SetOut(b)
			if got := strings.Count(string(set), "\n") + 1; got != tc.lines {
				t.Errorf("%d lines, want %d: %.300s", got, tc.lines, set)
			}
			var before, after any
			if err := json.Unmarshal(b, &before); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(set, &after); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("the values differ: %s", diff)
			}
		})
	}
}

// TestWhatMattersComesFirst: clients cut long replies, so the code, the message and the next call
// come first, and the content of the step last.
func TestWhatMattersComesFirst(t *testing.T) {
	code := 1
	b, err := api.Encode(api.StepReply{
		ErrorCode: "X", Message: "m", NextAction: "n", NextCall: api.BeginCall("u", nil), RetryCount: &code, RunID: "r",
		Solved: []api.Solved{{}}, CurrentStep: api.CurrentStep{URI: "u", Content: "c"},
	}, "")
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, member := range []string{"must_obey", "error_code", "message", "next_action", "next_call", "challenge", "run_id", "solved", "current_step"} {
		i := strings.Index(string(b), `"`+member+`":`)
		if i < at {
			t.Errorf("%s stands too early, or not at all: %s", member, b)
		}
		at = i
	}
}
