package fields_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/fields"
)

func TestDecodeOneTakesExactlyOneValue(t *testing.T) {
	for name, tc := range map[string]struct{ in, want, wrong string }{
		"object":          {in: "\n {\"a\":[1,2.5,null]}\t", want: `{"a":[1,2.5,null]}`},
		"string":          {in: `"x"`, want: `"x"`},
		"null":            {in: `null`, want: `null`},
		"nested keys":     {in: `{"a":{"a":1},"b":[{"a":1},{"a":2}]}`, want: `{"a":{"a":1},"b":[{"a":1},{"a":2}]}`},
		"empty":           {in: " ", wrong: "empty"},
		"prose":           {in: `Sure! {"a":1}`, wrong: `begins with "Sure!`},
		"prose behind":    {in: `{"a":1} Done.`, wrong: "follows"},
		"two values":      {in: `{"a":1}{"a":2}`, wrong: "follows"},
		"fence":           {in: "```json\n{}\n```", wrong: "begins with \"```json"},
		"twice":           {in: `{"a":1,"a":2}`, wrong: `"a" occurs twice`},
		"twice, escaped":  {in: `{"a":1,"\u0061":2}`, wrong: `"a" occurs twice`},
		"cut off":         {in: `{"a":"b`, wrong: "cut off"},
		"cut key":         {in: `{"a"`, wrong: "cut off"},
		"deep":            {in: strings.Repeat("[", 65) + strings.Repeat("]", 65), wrong: "nested deeper"},
		"at the bound":    {in: strings.Repeat("[", 64) + strings.Repeat("]", 64), want: strings.Repeat("[", 64) + strings.Repeat("]", 64)},
		"endless":         {in: strings.Repeat(`{"a":`, 100000), wrong: "nested deeper"},
		"huge exponent":   {in: `{"a":1e999999999}`, wrong: "out of range"},
		"tiny exponent":   {in: `-1E-999999999`, wrong: "out of range"},
		"beyond a double": {in: `{"a":9e308}`, wrong: "out of range"},
		"least double":    {in: `-5e-324`, want: `-5e-324`},
		"long number":     {in: strings.Repeat("9", 1000), wrong: "more than 64"},
		"not UTF-8":       {in: "\"\xff\"", wrong: "UTF-8"},
		"trailing comma":  {in: `{"a":1,}`, wrong: "not JSON"},
		"NaN":             {in: `NaN`, wrong: "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := fields.DecodeOne([]byte(tc.in))
			if tc.wrong != "" {
				if err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Fatalf("DecodeOne(%.40q) = %.40q, %v, want an error with %q", tc.in, got, err, tc.wrong)
				}
				return
			}
			if err != nil || string(got) != tc.want {
				t.Errorf("DecodeOne(%q) = %q, %v, want %q", tc.in, got, err, tc.want)
			}
		})
	}
}

func FuzzDecodeOne(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{"b":null}]}`, `[1,2]x`, `{"a":1,"a":2}`, "```", `1e400`, `"\ud800"`, ` `} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		got, err := fields.DecodeOne(text)
		if err != nil {
			return
		}
		if !json.Valid(got) || !json.Valid(text) {
			t.Errorf("DecodeOne(%q) = %q, not valid JSON", text, got)
		}
	})
}

func ExamplePointer() {
	fmt.Println(fields.Pointer("a/b", "c~d"))
	// Output: /a~1b/c~0d
}
