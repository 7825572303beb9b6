package schema_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// many joins n parts with commas.
func many(n int, part func(i int) string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(part(i))
	}
	return b.String()
}

func same(part string) func(int) string { return func(int) string { return part } }

// soon fails if a call takes much longer than the second that it may take here: the
// machine of a test may be slow, and what is not bounded takes minutes.
func soon(t *testing.T, what string, call func()) {
	t.Helper()
	began := time.Now()
	call()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("%s took %s", what, took)
	}
}

func TestASchemaBeyondTheLimitsIsNotCompiled(t *testing.T) {
	literal := strings.Repeat("a.b.", 45)
	for name, tc := range map[string]struct{ schema, wrong string }{
		"20 patterns of a thousand copies": {`{"properties":{` + many(20, func(i int) string {
			return fmt.Sprintf(`"a%d":{"pattern":"(%s%d){1000}"}`, i, literal, i)
		}) + `}}`, "more than 50000 steps for a character together"},
		"1000 small patterns": {`{"patternProperties":{` + many(1000, func(i int) string {
			return fmt.Sprintf(`"x{99}%d":true`, i)
		}) + `}}`, "more than 50000 steps for a character together"},
		"patterns as names": {`{"patternProperties":{"(` + literal + `){1000}":{}}}`, "takes more than 10000 steps"},
		"a long pattern":    {`{"pattern":"` + strings.Repeat("x", 5000) + `"}`, "at most 4096 bytes"},
		"3001 alternatives": {`{"anyOf":[` + many(3001, same(`{}`)) + `]}`, "more than 3000 parts"},
		"3001 booleans":     {`{"allOf":[` + many(3001, same(`true`)) + `]}`, "more than 3000 parts"},
		"60000 values":      {`{"enum":[` + many(60_000, strconv.Itoa) + `]}`, "more than 50000 values"},
		"2 MiB":             {`{"title":"` + strings.Repeat("x", 2<<20) + `"}`, "at most 1048576 are allowed"},
		"a name of 2000":    {`{"properties":{"` + strings.Repeat("k", 2000) + `":{"properties":{"a":{}}}}}`, "more than 1024 bytes together"},
		"65 levels":         {strings.Repeat(`{"not":`, 65) + `{}` + strings.Repeat(`}`, 65), "nested deeper than 64"},
	} {
		t.Run(name, func(t *testing.T) {
			soon(t, "Compile", func() {
				if _, err := schema.Compile(json.RawMessage(tc.schema)); err == nil || !strings.Contains(err.Error(), tc.wrong) {
					t.Errorf("Compile(%.60s) = %.300v, want %q", tc.schema, err, tc.wrong)
				}
			})
			if found := fields.Text(schemaValidate(tc.schema, `{}`)); !strings.Contains(found, tc.wrong) {
				t.Errorf("Validate(%.60s) = %.300s, want %q", tc.schema, found, tc.wrong)
			}
		})
	}
}

// A schema within the limits compiles in time, whatever it makes the validator do.
func TestASchemaWithinTheLimitsCompilesInTime(t *testing.T) {
	for name, s := range map[string]string{
		"identifiers":      `{"$defs":{` + many(1400, func(i int) string { return fmt.Sprintf(`"a%d":{"$id":"urn:x:%d"}`, i, i) }) + `},"allOf":[` + many(1400, func(i int) string { return fmt.Sprintf(`{"$ref":"urn:x:%d"}`, i) }) + `]}`,
		"parts elsewhere":  `{"x":{` + many(1400, func(i int) string { return fmt.Sprintf(`"a%d":{"type":"string"}`, i) }) + `},"allOf":[` + many(1400, func(i int) string { return fmt.Sprintf(`{"$ref":"#/x/a%d"}`, i) }) + `]}`,
		"a chain":          `{"$ref":"#/$defs/0","$defs":{` + many(2900, func(i int) string { return fmt.Sprintf(`"%d":{"$ref":"#/$defs/%d"}`, i, i+1) }) + `,"2900":{}}}`,
		"long names":       `{"properties":{"` + strings.Repeat("k", 900) + `":{"properties":{` + many(2900, func(i int) string { return fmt.Sprintf(`"%04d":{}`, i) }) + `}}}}`,
		"anchors":          `{"$defs":{` + many(2900, func(i int) string { return fmt.Sprintf(`"a%d":{"$anchor":"x%d"}`, i, i) }) + `}}`,
		"strict booleans":  `{"type":"object","properties":{` + many(1400, func(i int) string { return fmt.Sprintf(`"a%d":{"properties":{}}`, i) }) + `}}`,
		"the largest enum": `{"enum":[` + many(49_000, strconv.Itoa) + `]}`,
	} {
		t.Run(name, func(t *testing.T) {
			soon(t, "Strict", func() {
				strict, err := schema.Strict(json.RawMessage(s))
				if err != nil && !strings.Contains(err.Error(), "strict form: ") {
					t.Fatalf("Strict = %v, want the form, or that there is none", err)
				}
				if _, err := schema.Compile(strict); strict != nil && err != nil {
					t.Errorf("Compile of the strict form = %v", err)
				}
			})
		})
	}
}

func TestAValueThatTakesTooMuchWorkIsRefusedInTime(t *testing.T) {
	colliding := func(i int) string { // the same text cut at different places
		parts := `"`
		for bit := range 14 {
			if parts += "x"; i>>bit&1 == 0 {
				parts += `","`
			} else {
				parts += `\u0004`
			}
		}
		return `[` + parts + `"]`
	}
	for name, tc := range map[string]struct{ schema, value string }{
		"alternatives of items":  {`{"items":{"anyOf":[` + many(2900, func(i int) string { return fmt.Sprintf(`{"const":"a%d"}`, i) }) + `]}}`, `[` + many(5000, same("0")) + `]`},
		"a pattern and 2.8 MB":   {`{"pattern":"(.*a.*b.*c.*d.*){200}$"}`, `"` + strings.Repeat("abcde", 560_000) + `"`},
		"a pattern and names":    {`{"patternProperties":{"(.*a.*b.*c.*d.*){200}$":{}}}`, `{"` + strings.Repeat("abcde", 560_000) + `":1}`},
		"names of properties":    {`{"propertyNames":{"pattern":"(.*a.*b.*c.*d.*){200}$"}}`, `{"` + strings.Repeat("abcde", 560_000) + `":1}`},
		"an enum of numbers":     {`{"items":{"enum":[` + many(40_000, strconv.Itoa) + `]}}`, `[` + many(10_000, same("-1")) + `]`},
		"an enum of lists":       {`{"items":{"enum":[` + many(10_000, func(i int) string { return fmt.Sprintf(`[1,%d]`, i) }) + `]}}`, `[` + many(10_000, same("[1,-1]")) + `]`},
		"lists with one hash":    {`{"uniqueItems":true}`, `[` + many(1<<14, colliding) + `]`},
		"required keys":          {`{"items":{"required":[` + many(20_000, func(i int) string { return fmt.Sprintf(`"%d"`, i) }) + `]}}`, `[` + many(10_000, same("{}")) + `]`},
		"parts with long texts":  {`{"allOf":[` + many(2900, same(`{"maxLength":1}`)) + `]}`, `"` + strings.Repeat("x", 5<<20) + `"`},
		"values as expressions":  {`{"items":{"format":"regex"}}`, `[` + many(10_000, func(i int) string { return fmt.Sprintf(`"(a{9}b%d){900}"`, i) }) + `]`},
		"contains":               {`{"allOf":[` + many(1400, same(`{"contains":{"const":1}}`)) + `]}`, `[` + many(5_000, same("0")) + `]`},
		"unevaluated properties": {`{"unevaluatedProperties":false,"allOf":[` + many(900, same(`{"properties":{"a":{}}}`)) + `]}`, `{` + many(5_000, func(i int) string { return fmt.Sprintf(`"k%d":0`, i) }) + `}`},
		"references":             {`{"items":{"$ref":"#/$defs/0"},"$defs":{` + many(2900, func(i int) string { return fmt.Sprintf(`"%d":{"$ref":"#/$defs/%d"}`, i, i+1) }) + `,"2900":{}}}`, `[` + many(5_000, same("0")) + `]`},
		"dependent schemas":      {`{"items":{"dependentSchemas":{` + many(2900, func(i int) string { return fmt.Sprintf(`"k%d":{"type":"string"}`, i) }) + `}}}`, `[` + many(5_000, same("{}")) + `]`},
	} {
		t.Run(name, func(t *testing.T) {
			soon(t, "Validate", func() {
				if found := fields.Text(schemaValidate(tc.schema, tc.value)); !strings.Contains(found, "takes more than 1048576 comparisons") {
					t.Errorf("Validate = %.300s, want it refused for its work", found)
				}
			})
		})
	}
}

// Values that people really send are judged, however large they are.
func TestHonestLargeValuesAreJudged(t *testing.T) {
	row := func(i int) string {
		return fmt.Sprintf(`{"id":%d,"name":"item-%d","state":"open","tags":["a","b"],"at":"2026-11-25T10:00:00Z","mail":"a%d@example.com"}`, i, i, i)
	}
	const record = `{"type":"object","properties":{"id":{"type":"integer","minimum":0},"name":{"type":"string","pattern":"^[a-z0-9-]{1,64}$"},
		"state":{"enum":["open","closed","merged"]},"tags":{"type":"array","items":{"type":"string"},"uniqueItems":true},
		"at":{"type":"string","format":"date-time"},"mail":{"type":"string","format":"email"}},"required":["id","name"],"additionalProperties":false}`
	kinds := `{"type":"array","items":{"oneOf":[` + many(20, func(i int) string {
		return fmt.Sprintf(`{"type":"object","properties":{"kind":{"const":"k%d"},"v":{"type":"integer"}},"required":["kind"]}`, i)
	}) + `]}}`
	for name, tc := range map[string]struct{ schema, value string }{
		"10000 records of a tool":      {`{"type":"array","items":` + record + `}`, `[` + many(10_000, row) + `]`},
		"records behind a reference":   {`{"type":"array","items":{"$ref":"#/$defs/r"},"$defs":{"r":` + record + `}}`, `[` + many(10_000, row) + `]`},
		"300000 numbers":               {`{"type":"array","items":{"type":"integer"}}`, `[` + many(300_000, strconv.Itoa) + `]`},
		"10000 unique records":         {`{"type":"array","uniqueItems":true}`, `[` + many(10_000, row) + `]`},
		"one of 20 kinds, 5000 times":  {kinds, `[` + many(5_000, func(i int) string { return fmt.Sprintf(`{"kind":"k%d","v":%d}`, i%20, i) }) + `]`},
		"a document of 8 MB":           {`{"type":"object","properties":{"text":{"type":"string","minLength":1}},"required":["text"]}`, `{"text":"` + strings.Repeat("word ", 1_600_000) + `"}`},
		"a text of 1 MB by a pattern":  {`{"type":"string","pattern":"^[\\s\\S]*done[\\s\\S]*$"}`, `"` + strings.Repeat("word ", 200_000) + `done"`},
		"one of 10000 names":           {`{"enum":[` + many(10_000, func(i int) string { return fmt.Sprintf(`"name-%d"`, i) }) + `]}`, `"name-9999"`},
		"100000 members of a map":      {`{"type":"object","additionalProperties":{"type":"integer"}}`, `{` + many(100_000, func(i int) string { return fmt.Sprintf(`"k%d":%d`, i, i) }) + `}`},
		"a schema of 1000 properties":  {`{"type":"object","properties":{` + many(1000, func(i int) string { return fmt.Sprintf(`"p%d":{"type":"string","pattern":"^[a-z]{1,20}$"}`, i) }) + `},"additionalProperties":false}`, `{"p1":"a","p999":"b"}`},
		"40 properties with a pattern": {`{"type":"object","properties":{` + many(20, func(i int) string { return fmt.Sprintf(`"p%d":{"pattern":"^.{1,%d}$"}`, i, 980+i) }) + `}}`, `{"p1":"a"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if found := fields.Text(schemaValidate(tc.schema, tc.value)); found != "" {
				t.Errorf("Validate = %.300s, want it valid", found)
			}
		})
	}
}

// Findings are put into words only if they are reported, and their length is limited.
func TestManyFindingsAreToldShortly(t *testing.T) {
	for name, tc := range map[string]struct{ schema, value string }{
		"300000 items":        {`{"items":{"type":"string"}}`, `[` + many(300_000, same("0")) + `]`},
		"100000 unknown keys": {`{"additionalProperties":false,"properties":{"a":{}}}`, `{` + many(100_000, func(i int) string { return fmt.Sprintf(`"k%d":0`, i) }) + `}`},
		"a long enum":         {`{"enum":[` + many(40_000, strconv.Itoa) + `]}`, `"x"`},
		"alternatives":        {`{"items":{"anyOf":[` + many(100, same(`{"type":"string"}`)) + `]}}`, `[` + many(5000, same("0")) + `]`},
	} {
		t.Run(name, func(t *testing.T) {
			soon(t, "Validate", func() {
				found := schemaValidate(tc.schema, tc.value)
				if text := fields.Text(found); len(found) == 0 || len(found) > 21 || len(text) > 10_000 || strings.Contains(text, "comparisons") {
					t.Errorf("Validate found %d: %.300s, want at most 20 short findings and their number", len(found), text)
				}
			})
		})
	}
}
