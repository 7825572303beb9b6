package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// formWith is a form of the field "list".
func formWith(field string) json.RawMessage {
	return json.RawMessage(`{"type":"object","properties":{"list":` + field + `},"required":["list"]}`)
}

func TestListsAreAskedForInAForm(t *testing.T) {
	const (
		names   = `{"type":"array","title":"People","description":"Who takes part","items":{"type":"string","minLength":1},"minItems":1,"default":["Ada","Bob"]}`
		numbers = `{"type":"array","items":{"type":"integer"}}`
		colours = `{"type":"array","items":{"type":"string","enum":["red","green"]},"maxItems":1,"uniqueItems":true,"default":["red"]}`
		titled  = `{"type":"array","description":"Pick.","items":{"oneOf":[{"const":"#f00","title":"Red"},{"const":"#0f0"}]}}`
	)
	for name, tc := range map[string]struct {
		field       string
		multiSelect bool
		want        string
	}{
		"names":           {names, true, `{"type":"string","title":"People","description":"Who takes part. One per line, or separated by commas.","minLength":1,"default":"Ada, Bob"}`},
		"numbers":         {numbers, true, `{"type":"string","description":"Numbers, one per line or separated by commas."}`},
		"choices":         {colours, true, `{"type":"array","items":{"type":"string","enum":["red","green"]},"maxItems":1,"default":["red"]}`},
		"choices as text": {colours, false, `{"type":"string","description":"One per line, or separated by commas. Possible: red, green.","default":"red"}`},
		"titled":          {titled, true, `{"type":"array","description":"Pick.","items":{"anyOf":[{"const":"#f00","title":"Red"},{"const":"#0f0","title":"#0f0"}]}}`},
		"titled as text":  {titled, false, `{"type":"string","description":"Pick. One per line, or separated by commas. Possible: Red, #0f0."}`},
		"a default that a text cannot hold": {`{"type":"array","items":{"type":"string"},"default":["Doe, Jane"]}`, true,
			`{"type":"string","description":"One per line, or separated by commas."}`},
		"no list": {`{"type":"string"}`, true, `{"type":"string"}`},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := schema.FormOf(formWith(tc.field), tc.multiSelect)
			if err != nil {
				t.Fatal(err)
			}
			var got, want any
			if err := json.Unmarshal(f.Schema, &got); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(formWith(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("form (-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatNoFormHoldsIsRefused(t *testing.T) {
	for field, says := range map[string]string{
		`{"type":"array"}`:                                         `needs "items"`,
		`{"type":"array","items":true}`:                            `needs "items"`,
		`{"type":"array","items":{"type":"object"}}`:               "type must be one of",
		`{"type":"array","items":{"type":"array"}}`:                "type must be one of",
		`{"type":"array","items":{"type":"boolean"}}`:              "true and false",
		`{"type":"array","items":{"type":"string"},"contains":{}}`: `the keyword "contains"`,
		`{"type":"array","items":{"type":"string","enum":[1]}}`:    "cannot be chosen",
		`{"type":"array","items":{"type":"string"},"minItems":-1}`: "minItems",
		`{"type":"object"}`:                                        "type must be one of",
	} {
		if f, err := schema.FormOf(formWith(field), true); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("FormOf(%s) = %s, %v, want an error with %q", field, f.Schema, err, says)
		}
	}
}

func TestTypedListsAreRead(t *testing.T) {
	const (
		names   = `{"type":"array","items":{"type":"string"}}`
		numbers = `{"type":"array","items":{"type":"number"}}`
		titled  = `{"type":"array","items":{"type":"string","oneOf":[{"const":"#f00","title":"Red"},{"const":"#0f0"}]}}`
	)
	for name, tc := range map[string]struct{ field, typed, want string }{
		"commas":                {names, `"Ada, Bob,,  Candy "`, `["Ada","Bob","Candy"]`},
		"lines":                 {names, `"Doe, Jane\r\nBob\n\n"`, `["Doe, Jane","Bob"]`},
		"one line that ends":    {names, `"Ada, Bob\n"`, `["Ada","Bob"]`},
		"one":                   {names, `"Ada"`, `["Ada"]`},
		"none":                  {names, `" , "`, `[]`},
		"a list all the same":   {names, `["Ada","Bob"]`, `["Ada","Bob"]`},
		"numbers":               {numbers, `"1, -2.50, 3e2"`, `[1,-2.50,3e2]`},
		"numbers in both ways":  {numbers, `"1, 2\n3,\r\n4"`, `[1,2,3,4]`},
		"choices in both ways":  {titled, `"red, #0f0\nblue"`, `["#f00","#0f0","blue"]`},
		"choices":               {titled, `"red, #0f0, blue"`, `["#f00","#0f0","blue"]`},
		"not for us to judge":   {names, `7`, `7`},
		"words between numbers": {numbers, `"1, two, 3, true"`, `/list/1: "two" is not a number; /list/3: "true" is not a number`},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := schema.FormOf(formWith(tc.field), false)
			if err != nil {
				t.Fatal(err)
			}
			got, wrong := f.Value(json.RawMessage(`{"list":` + tc.typed + `}`))
			if wrong != nil {
				got = json.RawMessage(`{"list":` + fields.Text(wrong) + `}`)
			}
			if want := `{"list":` + tc.want + `}`; string(got) != want {
				t.Errorf("Value(%s) = %s, want %s", tc.typed, got, want)
			}
		})
	}
}

func TestAListThatMayBeLeftOutIsLeftOut(t *testing.T) {
	f, err := schema.FormOf(json.RawMessage(`{"type":"object","required":["a"],"properties":{"a":{"type":"string"},"b":{"type":"array","items":{"type":"string"}}}}`), false)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := f.Value(json.RawMessage(`{"a":"x","b":""}`)); string(got) != `{"a":"x"}` {
		t.Errorf("Value = %s, want it without b", got)
	}
}

func TestChoicesAreListedWithTheirTitles(t *testing.T) {
	for field, want := range map[string]string{
		`{"type":"string","enum":["a","b"]}`:                                               `"a", "b"`,
		`{"type":"integer","oneOf":[{"const":1,"title":"One"},{"const":2,"title":"2"}]}`:   `1 = One, 2`,
		`{"type":"array","items":{"anyOf":[{"const":"m","title":"Mon\u202e\nday"}]}}`:      "\"m\" = Mon\u27e8U+202E\u27e9 day",
		`{"type":"string","enum":["a"],"oneOf":[{"const":"a","title":"A"},{"const":"b"}]}`: `"a" = A, "b"`,
		`{"type":"string"}`: "", `[]`: "", `{"enum":7}`: "",
	} {
		if got := schema.Choices(json.RawMessage(field)); got != want {
			t.Errorf("Choices(%s) = %s, want %s", field, got, want)
		}
	}
}

// A form stays as it is written where nothing has to be shown otherwise.
func TestFieldsKeepTheirOrder(t *testing.T) {
	const form = `{"type":"object","properties":{"z":{"type":"string"},"list":{"type":"array","items":{"type":"string","enum":["a"]}},"a":{"type":"string","oneOf":[{"const":"x","title":"X & Y"}]}}}`
	for choices, want := range map[bool]string{
		true:  `{"type":"object","properties":{"z":{"type":"string"},"list":{"items":{"enum":["a"],"type":"string"},"type":"array"},"a":{"type":"string","oneOf":[{"const":"x","title":"X & Y"}]}}}`,
		false: `{"type":"object","properties":{"z":{"type":"string"},"list":{"description":"One per line, or separated by commas. Possible: a.","type":"string"},"a":{"enum":["x"],"type":"string"}}}`,
	} {
		f, err := schema.FormOf(json.RawMessage(form), choices)
		if err != nil || string(f.Schema) != want {
			t.Errorf("FormOf(%v) = %s, %v, want %s", choices, f.Schema, err, want)
		}
	}
}

// Names that are typed a line each come back as they were.
func TestNamesTypedInLinesComeBack(t *testing.T) {
	f, err := schema.FormOf(formWith(`{"type":"array","items":{"type":"string"}}`), false)
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SliceOfN(rapid.StringMatching(`[a-z,;"\\]{1,8}( [a-z,]{1,8})?`), 2, 5).Draw(t, "names")
		typed, err := json.Marshal(strings.Join(names, "\n"))
		if err != nil {
			t.Fatal(err)
		}
		got, wrong := f.Value(json.RawMessage(fmt.Sprintf(`{"list":%s}`, typed)))
		var back struct{ List []string }
		if err := json.Unmarshal(got, &back); err != nil || wrong != nil {
			t.Fatalf("Value(%s) = %s, %v, %v", typed, got, wrong, err)
		}
		if diff := cmp.Diff(names, back.List); diff != "" {
			t.Fatal(diff)
		}
	})
}
