package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/sdk/driver"
	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// A key that is not known is named with the one that was probably meant, of the
// part of the schema that the value is compared with.
func TestAnUnknownKeyGetsASuggestionOfItsOwnPart(t *testing.T) {
	const schema = `{"type":"object","additionalProperties":false,
		"properties":{"lexical_threshold":{"type":"number"},"rules":{"type":"array","items":{"$ref":"#/$defs/rule"}}},
		"$defs":{"rule":{"type":"object","properties":{"pattern":{},"weight":{}},"additionalProperties":false}}}`
	for value, want := range map[string]string{
		`{"lexical_treshold":1}`:             `unknown key "lexical_treshold"; did you mean "lexical_threshold"?`,
		`{"rules":[{"patern":1}]}`:           `/rules/0: unknown key "patern"; did you mean "pattern"?`,
		`{"rules":[{"lexical_treshold":1}]}`: `/rules/0: unknown key "lexical_treshold"`,
		`{"nothing_like_it":1}`:              `unknown key "nothing_like_it"`,
	} {
		if got := fields.Text(schemaValidate(schema, value)); got != want {
			t.Errorf("Validate(%s) = %q, want %q", value, got, want)
		}
	}
}

func TestAFindingDoesNotQuoteTheValue(t *testing.T) {
	const schema = `{"items":{"type":"object","properties":{
		"p":{"pattern":"^[0-9]+$"},"f":{"format":"email"},"e":{"enum":["a","b"]},"c":{"const":1},"t":{"type":"number"},"m":{"maxLength":2},"x":{"multipleOf":7}}}}`
	for _, value := range []string{
		`[{"p":"hunter2"}]`, `[{"f":"hunter2"}]`, `[{"e":"hunter2"}]`, `[{"c":"hunter2"}]`, `[{"t":"hunter2"}]`, `[{"m":"hunter2"}]`, `[{"x":82}]`,
	} {
		if got := fields.Text(schemaValidate(schema, value)); got == "" || strings.Contains(got, "hunter2") || strings.Contains(got, "82") {
			t.Errorf("Validate(%s) = %q, want a finding without the value", value, got)
		}
	}
}

func schemaValidate(by, value string) []driver.Diagnostic {
	return schema.Validate(json.RawMessage(by), json.RawMessage(value))
}

func TestValidateSaysWhatIsWrongAndWhere(t *testing.T) {
	const form = `{"type":"object","properties":{"n":{"type":"integer","minimum":1},"when":{"type":"string","format":"date"},
		"in":{"type":"object","properties":{"a/b":{"type":"string"}},"required":["a/b"]}},"required":["n"],"additionalProperties":false}`
	for name, tc := range map[string]struct{ schema, value, want string }{
		"valid":          {form, `{"n":1}`, ""},
		"integral float": {form, `{"n":2.0}`, ""},
		"missing":        {form, `{}`, `missing "n"`},
		"type":           {form, `{"n":"1"}`, `/n: got string, want integer`},
		"several":        {form, `{"n":0,"x":1}`, `unknown key "x"; /n: must be at least 1`},
		"format":         {form, `{"n":1,"when":"tomorrow"}`, `/when: is not a valid date`},
		"nested":         {form, `{"n":1,"in":{"a/b":1}}`, `/in/a~1b: got number, want string`},
		"prose":          {form, `I think {"n":1}`, `not JSON: the text begins with "I think`},
		"hostile number": {form, `{"n":1e999999999}`, `out of range`},
		"hostile schema": {`{"minimum":1e999999999}`, `1`, `the schema: the number 1e999999999 is out of range`},
		"broken schema":  {`{"type":"objekt"}`, `{}`, `the schema: not a valid JSON Schema: /type`},
		"closest":        {`{"anyOf":[{"type":"object","required":["a","b"]},{"type":"object","required":["a","c","d"]}]}`, `{"a":1}`, `missing "b"`},
		"remote":         {`{"$ref":"https://example.com/s.json"}`, `{}`, `not followed`},
		"file":           {`{"$ref":"file:///etc/passwd"}`, `{}`, `not followed`},
		"endless":        {`{"$ref":"#"}`, `{}`, `refers to itself`},
	} {
		t.Run(name, func(t *testing.T) {
			got := fields.Text(schema.Validate(json.RawMessage(tc.schema), json.RawMessage(tc.value)))
			if (tc.want == "") != (got == "") || !strings.Contains(got, tc.want) {
				t.Errorf("Validate(%s) = %q, want %q", tc.value, got, tc.want)
			}
		})
	}
}

func TestFlatTakesOnlyFormsAClientCanShow(t *testing.T) {
	for name, tc := range map[string]struct{ schema, wrong string }{
		"duration":   {`{"type":"object","properties":{"m":{"type":"integer","minimum":5,"title":"Minutes"}},"required":["m"]}`, ""},
		"choices":    {`{"type":"object","properties":{"c":{"type":"string","enum":["a","b"]},"d":{"type":"string","oneOf":[{"const":"x","title":"X"}]}},"additionalProperties":false}`, ""},
		"nested":     {`{"type":"object","properties":{"o":{"type":"object"}}}`, `field "o"`},
		"list":       {`{"type":"object","properties":{"o":{"type":"array"}}}`, `field "o"`},
		"untyped":    {`{"type":"object","properties":{"o":{"enum":["a"]}}}`, `type must be`},
		"ref":        {`{"type":"object","properties":{"o":{"type":"string","$ref":"#"}}}`, `"$ref"`},
		"format":     {`{"type":"object","properties":{"o":{"type":"string","format":"ipv4"}}}`, `format must be`},
		"parts":      {`{"type":"object","properties":{"o":{"type":"string"}},"allOf":[{}]}`, `"allOf"`},
		"empty":      {`{"type":"object","properties":{}}`, "at least one"},
		"no type":    {`{"properties":{"o":{"type":"string"}}}`, `"type": "object"`},
		"not object": {`true`, `"type": "object"`},
		"not JSON":   {`{`, "cut off"},
		"bad value":  {`{"type":"object","properties":{"o":{"type":"string","minLength":"x"}}}`, "not a valid JSON Schema"},
		"odd choice": {`{"type":"object","properties":{"o":{"type":"string","oneOf":[{"type":"object"}]}}}`, `needs "const"`},
		"number":     {`{"type":"object","properties":{"o":{"type":"string","enum":["a",1]}}}`, `field "o": 1 cannot be chosen: it is not of type string`},
		"object":     {`{"type":"object","properties":{"o":{"type":"string","enum":[{"a":2}]}}}`, `{"a":2} cannot be chosen`},
		"null":       {`{"type":"object","properties":{"o":{"type":"string","enum":["a",null]}}}`, `null cannot be chosen`},
		"text":       {`{"type":"object","properties":{"o":{"type":"integer","oneOf":[{"const":1},{"const":"2"}]}}}`, `"2" cannot be chosen`},
		"fixed":      {`{"type":"object","properties":{"o":{"type":"boolean","const":"yes"}}}`, `"yes" cannot be chosen`},
		"numbers":    {`{"type":"object","properties":{"o":{"type":"integer","enum":[1,2.0]},"p":{"type":"number","enum":[1,0.5]},"q":{"type":"boolean","enum":[true]}}}`, ""},
		"free keys":  {`{"type":"object","properties":{"o":{"type":"string"}},"additionalProperties":{"type":"string"}}`, "additionalProperties"},
	} {
		t.Run(name, func(t *testing.T) {
			err := schema.Flat(json.RawMessage(tc.schema))
			if (err != nil) != (tc.wrong != "") || (err != nil && !strings.Contains(err.Error(), tc.wrong)) {
				t.Errorf("Flat(%s) = %v, want %q", tc.schema, err, tc.wrong)
			}
		})
	}
}

func TestStrictRefusesWhatTheSchemaLeavesUnsaid(t *testing.T) {
	const tree = `{"$ref":"#/$defs/n","$defs":{"n":{"type":"object","properties":{"v":{"type":"integer"},"kids":{"type":"array","items":{"$ref":"#/$defs/n"}}},"required":["v"]}}}`
	const parts = `{"allOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}]}`
	const choice = `{"anyOf":[{"type":"object","properties":{"a":{}}},{"type":"object","properties":{"b":{}}}]}`
	const keyed = `{"type":"object","properties":{"a":{},"b":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`
	const cond = `{"type":"object","properties":{"k":{}},"required":["k"],"if":{"properties":{"k":{"const":1}}},"then":{"properties":{"x":{}},"required":["x"]}}`
	for name, tc := range map[string]struct {
		schema, value string
		valid         bool
	}{
		"all keys":                {`{"type":"object","properties":{"a":{},"b":{}}}`, `{"a":1,"b":2}`, true},
		"a key less":              {`{"type":"object","properties":{"a":{},"b":{}}}`, `{"a":1}`, false},
		"a key more":              {`{"type":"object","properties":{"a":{}}}`, `{"a":1,"b":2}`, false},
		"said optional":           {`{"type":"object","properties":{"a":{},"b":{}},"required":["a"]}`, `{"a":1}`, true},
		"said none required":      {`{"type":"object","properties":{"a":{}},"required":[]}`, `{}`, true},
		"said open":               {`{"type":"object","properties":{"a":{}},"additionalProperties":true}`, `{"a":1,"b":2}`, true},
		"said patterns":           {`{"type":"object","properties":{"a":{}},"patternProperties":{"^x":{}}}`, `{"a":1,"xy":2}`, true},
		"free object":             {`{"type":"object"}`, `{"any":1}`, true},
		"nested more":             {`{"type":"object","properties":{"a":{"type":"object","properties":{"b":{}}}}}`, `{"a":{"b":1,"c":2}}`, false},
		"map of objects":          {`{"type":"object","additionalProperties":{"type":"object","properties":{"b":{}}}}`, `{"x":{"b":1},"y":{"b":1,"c":2}}`, false},
		"in a list":               {`{"type":"array","items":{"type":"object","properties":{"b":{}}}}`, `[{"b":1},{"b":1,"c":2}]`, false},
		"in a tuple":              {`{"prefixItems":[{"type":"object","properties":{"b":{}}}]}`, `[{"c":2,"b":1}]`, false},
		"parts together":          {parts, `{"a":1,"b":2}`, true},
		"parts and more":          {parts, `{"a":1,"b":2,"c":3}`, false},
		"referenced":              {tree, `{"v":1,"kids":[{"v":2}]}`, true},
		"referenced more":         {tree, `{"v":1,"kids":[{"v":2,"x":1}]}`, false},
		"referenced more on top":  {tree, `{"v":1,"x":1}`, false},
		"one choice":              {choice, `{"b":1}`, true},
		"choice more":             {choice, `{"b":1,"c":1}`, false},
		"required said in choice": {keyed, `{"b":1}`, true},
		"choice of keys, more":    {keyed, `{"b":1,"c":1}`, false},
		"condition met":           {cond, `{"k":1,"x":2}`, true},
		"condition not met":       {cond, `{"k":2}`, true},
		"condition, more":         {cond, `{"k":1,"x":2,"y":3}`, false},
		"old draft":               {`{"$schema":"http://json-schema.org/draft-07/schema#","definitions":{"p":{"properties":{"a":{}}}},"$ref":"#/definitions/p"}`, `{"a":1,"b":1}`, false},
		"property named required": {`{"type":"object","properties":{"required":{"type":"boolean"},"properties":{}}}`, `{"required":true,"properties":1}`, true},
	} {
		t.Run(name, func(t *testing.T) {
			strict, err := schema.Strict(json.RawMessage(tc.schema))
			if err != nil {
				t.Fatalf("Strict(%s): %v", tc.schema, err)
			}
			found := schema.Validate(strict, json.RawMessage(tc.value))
			if (len(found) == 0) != tc.valid {
				t.Errorf("Validate(%s, %s) = %v, want valid %v", strict, tc.value, found, tc.valid)
			}
			again, err := schema.Strict(strict)
			if diff := cmp.Diff(string(strict), string(again)); diff != "" || err != nil {
				t.Errorf("Strict is not idempotent (%v):\n%s", err, diff)
			}
		})
	}
}

func TestStrictRefusesReferencesItCannotFollow(t *testing.T) {
	for name, s := range map[string]string{
		"remote":      `{"$ref":"https://example.com/s.json"}`,
		"anchor":      `{"$ref":"#here","$defs":{"x":{"$anchor":"here"}}}`,
		"dynamic":     `{"$dynamicRef":"#x","$defs":{"x":{"$dynamicAnchor":"x"}}}`,
		"nowhere":     `{"$ref":"#/$defs/none"}`,
		"not JSON":    `{"type":`,
		"old parts":   `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{}},"allOf":[{"properties":{"b":{}}}]}`,
		"not schema":  `{"properties":[]}`,
		"just string": `"x"`,
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := schema.Strict(json.RawMessage(s)); err == nil {
				t.Errorf("Strict(%s) = %s, want an error", s, got)
			}
		})
	}
}

// A schema whose parts refer to each other twice at each of many levels must
// not cost twice as much at each.
func TestStrictIsNotExponential(t *testing.T) {
	definitions := map[string]any{"d60": map[string]any{"type": "object"}}
	for i := range 60 {
		ref := map[string]any{"$ref": fmt.Sprintf("#/$defs/d%d", i+1)}
		definitions[fmt.Sprintf("d%d", i)] = map[string]any{"allOf": []any{ref, ref}}
	}
	raw, err := json.Marshal(map[string]any{"$ref": "#/$defs/d0", "$defs": definitions})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := schema.Strict(raw); err != nil {
		t.Errorf("Strict: %v", err)
	}
}

// A value that the strict form accepts is accepted by the schema itself, too.
func TestStrictOnlyNarrows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		doc := drawSchema(t, 3)
		raw, _ := json.Marshal(doc)
		strict, err := schema.Strict(raw)
		if err != nil {
			t.Fatalf("Strict(%s): %v", raw, err)
		}
		value, _ := json.Marshal(drawValue(t, 3))
		if len(schema.Validate(strict, value)) == 0 && len(schema.Validate(raw, value)) != 0 {
			t.Fatalf("strict form of %s accepts %s", raw, value)
		}
	})
}

func drawSchema(t *rapid.T, depth int) any {
	choice := rapid.IntRange(0, 5).Draw(t, "kind")
	if depth == 0 {
		choice = 0
	}
	switch choice {
	case 1, 2:
		properties := map[string]any{}
		for _, key := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), rapid.ID).Draw(t, "keys") {
			properties[key] = drawSchema(t, depth-1)
		}
		object := map[string]any{"type": "object", "properties": properties}
		if rapid.Bool().Draw(t, "open") {
			object["additionalProperties"] = drawSchema(t, depth-1)
		}
		return object
	case 3:
		return map[string]any{"type": "array", "items": drawSchema(t, depth-1)}
	case 4:
		return map[string]any{"anyOf": []any{drawSchema(t, depth-1), drawSchema(t, depth-1)}}
	case 5:
		return map[string]any{"allOf": []any{drawSchema(t, depth-1), drawSchema(t, depth-1)}}
	}
	return map[string]any{"type": rapid.SampledFrom([]string{"string", "integer", "object"}).Draw(t, "type")}
}

func drawValue(t *rapid.T, depth int) any {
	choice := rapid.IntRange(0, 3).Draw(t, "value")
	if depth == 0 {
		choice = 0
	}
	switch choice {
	case 1, 2:
		object := map[string]any{}
		for _, key := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "c", "d"}), rapid.ID).Draw(t, "keys") {
			object[key] = drawValue(t, depth-1)
		}
		return object
	case 3:
		return []any{drawValue(t, depth-1)}
	}
	return rapid.SampledFrom([]any{"x", 1, true}).Draw(t, "scalar")
}

func FuzzStrict(f *testing.F) {
	f.Add([]byte(`{"type":"object","properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"allOf":[{"properties":{"b":{}}}]}}}`), []byte(`{"a":{"b":1}}`))
	f.Add([]byte(`{"$ref":"#"}`), []byte(`1`))
	f.Add([]byte(`{"allOf":[{"$ref":"#"}],"properties":{}}`), []byte(`{}`))
	f.Fuzz(func(t *testing.T, s, value []byte) {
		if len(s) > 2000 || len(value) > 2000 {
			return
		}
		strict, err := schema.Strict(s)
		if err != nil {
			return
		}
		if _, err := schema.Compile(strict); err != nil {
			t.Errorf("strict form of %s does not compile: %v", s, err)
		}
		schema.Validate(strict, value)
	})
}

// More schemas than are remembered, each used by several at a time, and what a
// caller does with a strict form is its own affair.
func TestRememberedSchemasJudgeAsNewOnes(t *testing.T) {
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for i := range 400 {
				text := json.RawMessage(fmt.Sprintf(`{"properties":{"a":{"const":%d}},"description":%q}`, i, strings.Repeat("x", 1000)))
				strict, err := schema.Strict(text)
				if err != nil {
					t.Error(err)
					return
				}
				for value, want := range map[string]int{fmt.Sprintf(`{"a":%d}`, i): 0, fmt.Sprintf(`{"a":%d}`, i+1): 1, `{}`: 1} {
					if got := schema.Validate(strict, json.RawMessage(value)); len(got) != want {
						t.Errorf("Validate(%s) by schema %d = %v, want %d findings", value, i, got, want)
					}
				}
				clear(strict)
				if got := schema.Validate(text, json.RawMessage(`{}`)); len(got) != 0 {
					t.Errorf("the schema as written judges strictly: %v", got)
				}
			}
		})
	}
	all.Wait()
}
