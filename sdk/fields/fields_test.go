package fields_test

import (
	"encoding/json"
	"errors"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
)

func TestMembersAreReadByExactNameAndType(t *testing.T) {
	o := fields.Open(json.RawMessage(`{"a":"x","n":1.5,"b":true,"null":null,"in":{"k":"v"},"A":"other"}`), "")
	if s, found := o.String("a"); s != "x" || !found {
		t.Errorf("String(a) = %q, %v, want x, true", s, found)
	}
	if n, found := o.Number("n"); n != 1.5 || !found {
		t.Errorf("Number(n) = %v, %v, want 1.5, true", n, found)
	}
	if b, found := o.Bool("b"); !b || !found {
		t.Errorf("Bool(b) = %v, %v, want true, true", b, found)
	}
	if o.Has("null") || o.Has("none") {
		t.Error("Has: null or absent member counts as there")
	}
	if raw := o.Raw("null"); string(raw) != "null" {
		t.Errorf("Raw(null) = %q, want null", raw)
	}
	if s, _ := o.Object("in").String("k"); s != "v" {
		t.Errorf("Object(in).String(k) = %q, want v", s)
	}
	if got := o.Problems(); got != nil {
		t.Errorf("Problems() = %v, want none", got)
	}
}

func TestDiagnosticsPointAtTheWrongMember(t *testing.T) {
	for name, tc := range map[string]struct {
		raw  string
		read func(*fields.Object)
		want []driver.Diagnostic
	}{
		"string":       {`{"a":1}`, func(o *fields.Object) { o.String("a") }, problem("/x/a", "must be a string, not a number")},
		"quoted":       {`{"a":"1"}`, func(o *fields.Object) { o.Number("a") }, problem("/x/a", "must be a number, not a string")},
		"bool":         {`{"a":"true"}`, func(o *fields.Object) { o.Bool("a") }, problem("/x/a", "must be true or false, not a string")},
		"object":       {`{"a":[]}`, func(o *fields.Object) { o.Object("a") }, problem("/x/a", "must be an object, not a list")},
		"number":       {`{"a":{}}`, func(o *fields.Object) { o.Number("a") }, problem("/x/a", "must be a number, not an object")},
		"nested":       {`{"a":{"b/c":1}}`, func(o *fields.Object) { o.Object("a").String("b/c") }, problem("/x/a/b~1c", "must be a string, not a number")},
		"not object":   {`[1]`, func(*fields.Object) {}, problem("/x", "must be an object, not a list")},
		"unknown":      {`{"a":1,"z":2}`, func(o *fields.Object) { o.Number("a"); o.Unread() }, []driver.Diagnostic{driver.Warning("/x/z", `unknown key "z"`)}},
		"case differs": {`{"A":1}`, func(o *fields.Object) { o.Number("a"); o.Unread() }, problem("/x/A", `unknown key "A"; did you mean "a"?`)},
		"twice":        {`{"a":1,"a":2}`, func(*fields.Object) {}, problem("/x", `the key "a" occurs twice in one object`)},
	} {
		t.Run(name, func(t *testing.T) {
			o := fields.Open(json.RawMessage(tc.raw), "/x")
			tc.read(o)
			if diff := cmp.Diff(tc.want, o.Diagnostics()); diff != "" {
				t.Errorf("Diagnostics() of %s (-want +got):\n%s", tc.raw, diff)
			}
		})
	}
}

func problem(pointer, message string) []driver.Diagnostic {
	return []driver.Diagnostic{driver.Problem(pointer, message)}
}

func TestMembersCanBeSetAndRemoved(t *testing.T) {
	for name, tc := range map[string]struct{ object, want string }{
		"new":     {`{"b":1.50,"gone":2}`, `{"a":"x","b":1.50}`},
		"changed": {`{"a":{}}`, `{"a":"x"}`},
		"null":    {`null`, `{"a":"x"}`},
		"none":    {``, `{"a":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fields.With(json.RawMessage(tc.object), "a", "x")
			if err == nil {
				got, err = fields.Without(got, "gone", "never there")
			}
			if string(got) != tc.want || err != nil {
				t.Errorf("With, Without(%s) = %s, %v, want %s", tc.object, got, err, tc.want)
			}
		})
	}
	if got, err := fields.With(json.RawMessage(`[]`), "a", 1); err == nil {
		t.Errorf("With([]) = %s, want an error", got)
	}
	if got, err := fields.Without(json.RawMessage(`[]`), "a"); err == nil {
		t.Errorf("Without([]) = %s, want an error", got)
	}
}

func TestOnlyErrorsCountAsErrors(t *testing.T) {
	warning, problem := driver.Warning("/a", "w"), driver.Problem("/a", "p")
	if fields.AnyError([]driver.Diagnostic{warning}) || !fields.AnyError([]driver.Diagnostic{warning, problem}) {
		t.Error("AnyError does not tell warnings from errors")
	}
}

func TestPlainNamesNoGoType(t *testing.T) {
	type inner struct {
		Mode string         `json:"mode"`
		List []string       `json:"list"`
		Size int            `json:"size"`
		On   bool           `json:"on"`
		Map  map[string]int `json:"map"`
	}
	var into struct {
		Inner inner `json:"inner"`
	}
	for document, want := range map[string]fields.TypeError{
		`{"inner":{"mode":true}}`: {Pointer: "/inner/mode", Message: "inner.mode must be a string, not a bool"},
		`{"inner":{"list":5}}`:    {Pointer: "/inner/list", Message: "inner.list must be a list, not a number"},
		`{"inner":{"size":1.5}}`:  {Pointer: "/inner/size", Message: "inner.size must be a whole number, not 1.5"},
		`{"inner":{"on":"x"}}`:    {Pointer: "/inner/on", Message: "inner.on must be true or false, not a string"},
		`{"inner":{"map":[]}}`:    {Pointer: "/inner/map", Message: "inner.map must be an object, not an array"},
		`[]`:                      {Message: "it must be an object, not an array"},
	} {
		got := new(fields.TypeError)
		if err := fields.Plain(json.Unmarshal([]byte(document), &into)); !errors.As(err, &got) || *got != want {
			t.Errorf("Plain(decoding %s) = %v, want %+v", document, err, want)
		}
	}
	if err := fields.Plain(io.EOF); !errors.Is(err, io.EOF) {
		t.Errorf("Plain(EOF) = %v, want it as it is", err)
	}
}

func TestClosestFindsTypingErrorsAndAbbreviations(t *testing.T) {
	known := []string{"cmd", "lexical_threshold", "shell", "timeout_seconds", "user_input"}
	for name, want := range map[string]string{
		"lexical_treshold":  "lexical_threshold",
		"shel":              "shell",
		"yser_input":        "user_input",
		"command":           "cmd", // four characters away, but its short form
		"timeout":           "timeout_seconds",
		"telepathy":         "",
		"c":                 "",
		"demand":            "", // contains "md" and begins differently
		"a_very_long_other": "",
		"":                  "",
	} {
		if got := fields.Closest(name, known); got != want {
			t.Errorf("Closest(%q) = %q, want %q", name, got, want)
		}
	}
	if got := fields.Closest("cmd", []string{"command", "comment"}); got != "command" {
		t.Errorf("Closest(cmd) = %q, want the long form of it", got)
	}
	if got, want := fields.Suggestion("command", known), `; did you mean "cmd"?`; got != want {
		t.Errorf("Suggestion(command) = %q, want %q", got, want)
	}
}
