package api_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/api"
)

func TestWhatMayBeAnyJSONIsShownAsText(t *testing.T) {
	type obj = map[string]any
	for name, tc := range map[string]struct{ form, want obj }{
		"what has a type of its own":        {obj{"type": "shell", "shell": obj{"exit_code": "<integer: code>"}}, obj{"type": "shell", "shell": obj{"exit_code": "<integer: code>"}}},
		"a result of which nothing is said": {obj{"mcp": obj{"result": "<anything>", "success": "<boolean>"}}, obj{"mcp": obj{"result": "<JSON as text>", "success": "<boolean>"}}},
		"a result with a shape":             {obj{"mcp": obj{"result": obj{"a": "<integer>"}}}, obj{"mcp": obj{"result": `<JSON as text: {"a":"<integer>"}>`}}},
		"an object":                         {obj{"evidence": obj{"b": "<string, optional>", "a": []any{"<integer>"}}}, obj{"evidence": `<JSON as text: {"a":["<integer>"],"b":"<string, optional>"}>`}},
		"a list":                            {obj{"evidence": []any{"<string: name>"}}, obj{"evidence": `<JSON as text: ["<string: name>"]>`}},
		"a number":                          {obj{"evidence": "<integer: how many>"}, obj{"evidence": "<JSON as text: integer: how many>"}},
		"a number that may be left out":     {obj{"evidence": "<integer, optional: how many>"}, obj{"evidence": "<JSON as text, optional: integer: how many>"}},
		"what its key describes alone":      {obj{"evidence": "<integer>"}, obj{"evidence": "<JSON as text: integer>"}},
		"that, where it may be left out":    {obj{"evidence": "<integer, optional>"}, obj{"evidence": "<JSON as text, optional: integer>"}},
		"anything, or nothing":              {obj{"evidence": "<anything, optional>"}, obj{"evidence": "<JSON as text, optional>"}},
		"a text":                            {obj{"evidence": "<string: name>"}, obj{"evidence": "<string: name>"}},
		"one text of several":               {obj{"evidence": `<one of "a: b", "c": name>`}, obj{"evidence": `<one of "a: b", "c": name>`}},
		"one number of several":             {obj{"evidence": "<one of 1, 2: name>"}, obj{"evidence": "<JSON as text: one of 1, 2: name>"}},
		"a member that is not declared":     {obj{"word_count": obj{"n": "<integer>"}}, obj{"word_count": obj{"n": "<integer>"}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, api.SolutionForm(tc.form)); diff != "" {
				t.Errorf("the form (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPeopleFillInTheShapeItself(t *testing.T) {
	shape := map[string]any{"a": []any{"<integer>"}}
	form := api.SolutionForm(map[string]any{"evidence": shape})
	if diff := cmp.Diff(any(shape), api.ShapeIn(form["evidence"])); diff != "" {
		t.Errorf("the shape (-want +got):\n%s", diff)
	}
	for _, other := range []any{"<JSON as text: result>", "<string: name>", true, nil} {
		if got := api.ShapeIn(other); got != other {
			t.Errorf("the shape in %v is %v", other, got)
		}
	}
}
