package api

import (
	"encoding/json"
	"maps"
	"strings"
	"sync"

	"github.com/kairos-mcp/kairos/sdk/shape"
)

// solutionOfHosts is the schema of NextRequest.Solution as hosts get it.
var solutionOfHosts = sync.OnceValue(func() *shape.Schema {
	return Next.Input().Properties.Named("solution").Carried()
})

// SolutionForm is the form of a solution as hosts take it that check arguments by the
// listed schema: with one placeholder for each place that is declared a text there and may
// hold any JSON. It shows the shape of that JSON.
func SolutionForm(form map[string]any) map[string]any {
	out, _ := asText(solutionOfHosts(), form).(map[string]any)
	return out
}

// FormAt is the form of a value at a member of the solution, as SolutionForm shows it.
func FormAt(member string, form any) any {
	return asText(solutionOfHosts().Properties.Named(member), form)
}

func asText(s *shape.Schema, form any) any {
	if s == nil {
		return form
	}
	if s.Type == "string" {
		return textForm(form)
	}
	members, _ := form.(map[string]any)
	if members == nil {
		return form
	}
	members = maps.Clone(members)
	for name, member := range members {
		members[name] = asText(s.Properties.Named(name), member)
	}
	return members
}

// asJSON begins the placeholder of a text that holds JSON.
const asJSON = "<JSON as text"

// textForm is the placeholder of a text. One of a text already is left as it is.
func textForm(form any) string {
	text, is := form.(string)
	if !is {
		shown, err := Encode(form, "")
		if err != nil {
			return asJSON + ">" // unreachable: forms are made of texts
		}
		return asJSON + ": " + string(shown) + ">"
	}
	kind, what, _ := strings.Cut(strings.TrimSuffix(strings.TrimPrefix(text, "<"), ">"), ": ")
	kind, optional := strings.CutSuffix(kind, ", optional")
	switch {
	case !strings.HasPrefix(text, "<"), strings.HasPrefix(kind, "string"), strings.HasPrefix(kind, `exactly "`), strings.HasPrefix(kind, `one of "`):
		return text
	case kind != "anything":
		what = strings.TrimSuffix(kind+": "+what, ": ")
	}
	placeholder := asJSON
	if optional {
		placeholder += ", optional"
	}
	if what != "" {
		placeholder += ": " + what
	}
	return placeholder + ">"
}

// ShapeIn is the shape that a placeholder of SolutionForm shows, as people fill it in where
// nothing checks it by that schema. Anything else is returned as it is.
func ShapeIn(form any) any {
	text, _ := form.(string)
	shown, is := strings.CutPrefix(strings.TrimSuffix(text, ">"), asJSON+": ")
	if !is || !strings.HasPrefix(shown, "{") && !strings.HasPrefix(shown, "[") { // such as the type null
		return form
	}
	if shape := Value(json.RawMessage(shown)); shape != nil {
		return shape
	}
	return form
}
