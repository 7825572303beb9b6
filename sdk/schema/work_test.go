package schema_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/fields"
	"github.com/kairos-mcp/kairos/sdk/schema"
)

// doubling is a schema of which each of n definitions refers twice to the next.
func doubling(n int, keyword string) string {
	defs := []string{fmt.Sprintf(`"d%d":{"type":"object"}`, n)}
	for i := range n {
		ref := fmt.Sprintf(`{"$ref":"#/$defs/d%d"}`, i+1)
		defs = append(defs, fmt.Sprintf(`"d%d":{%q:[%s,%s]}`, i, keyword, ref, ref))
	}
	return `{"$ref":"#/$defs/d0","$defs":{` + strings.Join(defs, ",") + `}}`
}

func TestWorkOfValidationIsBounded(t *testing.T) {
	const tree = `{"type":"object","properties":{"next":{"$ref":"#"},"all":{"type":"array","items":{"$ref":"#"}}},"additionalProperties":false}`
	const twice = `{"allOf":[{"properties":{"next":{"$ref":"#"}}},{"properties":{"next":{"$ref":"#"}}}]}`
	deep := func(n int) string { return strings.Repeat(`{"next":`, n) + "{}" + strings.Repeat("}", n) }
	wide := `{"all":[` + strings.Repeat(`{"all":[{},{}]},`, 20000) + `{}]}`
	numbers := make([]int, 100000)
	for i := range numbers {
		numbers[i] = i
	}
	unique, err := json.Marshal(numbers)
	if err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		schema, value string
		refused       bool
	}{
		"2^10 ways":                {doubling(10, "allOf"), `{}`, false},
		"2^20 ways":                {doubling(20, "allOf"), `{}`, true},
		"2^60 ways":                {doubling(60, "allOf"), `{}`, true},
		"2^60 choices":             {doubling(60, "anyOf"), `1`, true},
		"twice a level, 10 levels": {twice, deep(10), false},
		"twice a level, 60 levels": {twice, deep(60), true},
		"a tree of 60 levels":      {tree, deep(60), false},
		"a tree of 60000 nodes":    {tree, wide, false},
		"100000 different items":   {`{"uniqueItems":true}`, string(unique), false},
	} {
		t.Run(name, func(t *testing.T) {
			found := fields.Text(schema.Validate(json.RawMessage(tc.schema), json.RawMessage(tc.value)))
			if refused := strings.Contains(found, "more than 1048576 comparisons"); refused != tc.refused {
				t.Errorf("Validate = %s, want refused for its work: %t", found, tc.refused)
			}
			if !tc.refused && found != "" {
				t.Errorf("Validate = %s, want it valid", found)
			}
		})
	}
}

func TestSchemasThatJudgeAValueByItselfAreRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		schema  string
		refused bool
	}{
		"the whole":           {`{"$ref":"#"}`, true},
		"in a part":           {`{"allOf":[{"type":"object"},{"anyOf":[{"$ref":"#"}]}]}`, true},
		"through two":         {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"not":{"$ref":"#/$defs/a"}}}}`, true},
		"below a member":      {`{"properties":{"x":{"$ref":"#/$defs/a"}},"$defs":{"a":{"if":{"$ref":"#/$defs/a"}}}}`, true},
		"a list of its kind":  {`{"type":"array","items":{"$ref":"#"}}`, false},
		"a tree of its kind":  {`{"properties":{"left":{"$ref":"#"},"right":{"$ref":"#"}}}`, false},
		"one part used twice": {`{"allOf":[{"$ref":"#/$defs/a"},{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"object"}}}`, false},
		"no reference":        {`{"type":"object"}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := schema.Compile(json.RawMessage(tc.schema))
			if (err != nil) != tc.refused || tc.refused && !strings.Contains(err.Error(), "refers to itself") {
				t.Errorf("Compile(%s) = %v, want it refused: %t", tc.schema, err, tc.refused)
			}
		})
	}
}

// The target of such a reference depends on the way to it, and so does the work:
// two of them below each level double it with each, though no part is shared.
func TestReferencesWhoseTargetMovesAreRefused(t *testing.T) {
	const dynamic = `{"$id":"urn:%s","$dynamicRef":"#n","$defs":{"n":{"$dynamicAnchor":"n"}}}`
	const recursive = `{"$id":"urn:%s","$recursiveAnchor":true,"properties":{"next":{"$recursiveRef":"#"}}}`
	const draft2019 = `"$schema":"https://json-schema.org/draft/2019-09/schema"`
	twice := func(part string) string { return fmt.Sprintf(part+","+part, "x", "y") }
	for name, tc := range map[string]struct {
		schema  string
		refused bool
	}{
		"dynamic":          {`{"$dynamicAnchor":"n","properties":{"next":{"allOf":[` + twice(dynamic) + `]}}}`, true},
		"recursive":        {`{` + draft2019 + `,"$id":"urn:root","$recursiveAnchor":true,"allOf":[` + twice(recursive) + `]}`, true},
		"of a meta-schema": {`{"$dynamicAnchor":"meta","$ref":"https://json-schema.org/draft/2020-12/meta/applicator"}`, true},
		"to one place":     {`{` + draft2019 + `,"properties":{"next":{"$recursiveRef":"#"}}}`, false},
		"as $ref":          {`{"properties":{"next":{"$dynamicRef":"#/$defs/n"}},"$defs":{"n":{}}}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := schema.Compile(json.RawMessage(tc.schema)); (err != nil) != tc.refused {
				t.Errorf("Compile(%s) = %v, want it refused: %t", tc.schema, err, tc.refused)
			}
		})
	}
}
