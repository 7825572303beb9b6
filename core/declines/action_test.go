package declines_test

import (
	"encoding/json"
	"testing"

	"github.com/kairos-mcp/kairos/core/declines"
)

func asked(typ, stated string) declines.Asked {
	a := declines.Asked{Type: typ, Shown: json.RawMessage(`{"shown":true}`)}
	if stated != "" {
		a.Stated = []json.RawMessage{json.RawMessage(stated)}
	}
	return a
}

func TestActionsAreTheSameUnlessAPartDiffers(t *testing.T) {
	book := asked("mcp", `{"tool":"book","arguments":{"at":10,"for":"Ann"}}`)
	proposed := asked("mcp", `{"tool":"book"}`)
	proposed.Stated = append(proposed.Stated, json.RawMessage(`{"arguments":{"for":"Ann","at":1e1}}`))
	shown, chosen := asked("mcp", ""), asked("mcp", "")
	chosen.Proposed = json.RawMessage(`"Ann"`)
	other := chosen
	other.Proposed = json.RawMessage(`"Betty"`)
	for name, tc := range map[string]struct {
		a, b           declines.Asked
		same, includes bool
	}{
		"itself":                             {book, book, true, true},
		"in another order":                   {book, asked("mcp", `{"arguments":{"for":"Ann","at":10},"tool":"book"}`), true, true},
		"proposed instead of written":        {book, proposed, true, true},
		"with any arguments":                 {asked("mcp", `{"tool":"book"}`), book, true, true},
		"one of any":                         {book, asked("mcp", `{"tool":"book"}`), true, false},
		"another argument":                   {book, asked("mcp", `{"tool":"book","arguments":{"at":11,"for":"Ann"}}`), false, false},
		"another tool":                       {book, asked("mcp", `{"tool":"look"}`), false, false},
		"another type":                       {book, asked("shell", `{"tool":"book","arguments":{"at":10,"for":"Ann"}}`), false, false},
		"nothing stated":                     {shown, asked("mcp", ""), true, true},
		"nothing stated, and chosen":         {shown, chosen, true, true},
		"nothing stated, and chosen again":   {chosen, other, false, false},
		"a value that is text of the others": {asked("mcp", `{"tool":"1"}`), asked("mcp", `{"tool":1}`), false, false},
	} {
		a, err := tc.a.Action()
		if err != nil {
			t.Fatal(err)
		}
		b, err := tc.b.Action()
		if err != nil {
			t.Fatal(err)
		}
		if a.Same(b) != tc.same || b.Same(a) != tc.same || a.Includes(b) != tc.includes {
			t.Errorf("%s: same %v and %v, includes %v", name, a.Same(b), b.Same(a), a.Includes(b))
		}
	}
}
