package declines_test

import (
	"encoding/json"
	"strings"
	"testing"

	"pgregory.net/rapid"

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
		"whatever of the type":               {asked("mcp", `{"x":1}`), asked("mcp", `{"tool":"book"}`), true, false},
		"one of any":                         {book, asked("mcp", `{"tool":"book"}`), true, false},
		"another argument":                   {book, asked("mcp", `{"tool":"book","arguments":{"at":11,"for":"Ann"}}`), false, false},
		"another tool":                       {book, asked("mcp", `{"tool":"look"}`), false, false},
		"another type":                       {book, asked("shell", `{"tool":"book","arguments":{"at":10,"for":"Ann"}}`), false, false},
		"nothing stated":                     {shown, asked("mcp", ""), true, true},
		"nothing stated, and chosen":         {shown, chosen, true, true},
		"nothing stated, and chosen again":   {chosen, other, false, false},
		"written with another number":        {book, asked("mcp", `{"tool":"book","arguments":{"at":10.0,"for":"Ann"}}`), true, true},
		"with a member that is null":         {book, asked("mcp", `{"tool":"book","arguments":{"at":10,"for":"Ann","note":null}}`), true, true},
		"in other characters":                {book, asked("mcp", `{"tool":"bo\u200bok","arguments":{"at":10,"for":" \uff21n\u00adn"}}`), true, true},
		"to somebody else":                   {book, asked("mcp", `{"tool":"book","arguments":{"at":10,"for":"ann"}}`), false, false},
		"a list in another order":            {asked("sh", `{"c":[["a"],["b"]]}`), asked("sh", `{"c":[["b"],["a"],["a"]]}`), true, true},
		"more than it":                       {asked("sh", `{"c":[["a"],["b"]]}`), asked("sh", `{"c":[["a"]]}`), true, true},
		"less than it":                       {asked("sh", `{"c":[["a"]]}`), asked("sh", `{"c":[["a"],["b"]]}`), true, false},
		"a list that overlaps":               {asked("sh", `{"c":[["a"],["b"]]}`), asked("sh", `{"c":[["b"],["c"]]}`), false, false},
		"a list inside a list":               {asked("sh", `{"c":[["a","b"]]}`), asked("sh", `{"c":[["b","a"]]}`), false, false},
		"an empty list":                      {asked("sh", `{"c":[]}`), asked("sh", `{"c":[["a"]]}`), false, false},
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

// How an action is written tells nothing about what it does.
func TestSpellingDoesNotTellActionsApart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.MapOf(rapid.StringMatching(`[a-z]{1,4}`), rapid.OneOf(
			rapid.StringMatching(`[a-zA-Z /-]{0,8}`).AsAny(), rapid.IntRange(-1000, 1000).AsAny(), rapid.SliceOfN(rapid.StringMatching(`[a-z]{0,3}`).AsAny(), 0, 3).AsAny(),
		)).Draw(t, "value")
		plainly, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		var respelt strings.Builder
		for i, r := range string(plainly) {
			if r == '"' || i == 0 || !rapid.Bool().Draw(t, "change") {
				respelt.WriteRune(r)
				continue
			}
			switch {
			case r == ' ':
				respelt.WriteString(rapid.SampledFrom([]string{"  ", "\\t", "\u00a0", "\u3000"}).Draw(t, "blank"))
			case 'a' <= r && r <= 'z':
				respelt.WriteString(string(r) + rapid.SampledFrom([]string{"", "\u200b", "\u00ad", "\\u202e", "\u3164"}).Draw(t, "hidden"))
			case 'A' <= r && r <= 'Z':
				respelt.WriteRune(r - 'A' + 'Ａ')
			default:
				respelt.WriteRune(r)
			}
		}
		a, err := asked("t", string(plainly)).Action()
		if err != nil {
			t.Fatal(err)
		}
		b, err := asked("t", respelt.String()).Action()
		if err != nil {
			t.Fatal(err)
		}
		if !a.Same(b) || !a.Includes(b) || !b.Includes(a) {
			t.Errorf("%s and %s are told apart", plainly, respelt.String())
		}
	})
}
