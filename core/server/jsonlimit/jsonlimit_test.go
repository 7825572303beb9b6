package jsonlimit_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/server/jsonlimit"
)

func TestDepthAndValuesAreBounded(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	wide := func(n int) string { return "[" + strings.Repeat("1,", n-2) + "1]" }
	for name, tc := range map[string]struct {
		text string
		want string // empty: allowed
	}{
		"as deep as can be":        {deep(jsonlimit.MaxDepth), ""},
		"too deep":                 {deep(jsonlimit.MaxDepth + 1), "nested"},
		"never closed":             {strings.Repeat(`{"a":`, jsonlimit.MaxDepth+1), "nested"},
		"as many as can be":        {wide(jsonlimit.MaxValues), ""},
		"too many":                 {wide(jsonlimit.MaxValues + 2), "values"},
		"empty objects":            {"[" + strings.Repeat("{},", jsonlimit.MaxValues/2+1) + "{}]", "values"},
		"brackets in a string":     {`{"a":"` + strings.Repeat("[,", jsonlimit.MaxValues) + `"}`, ""},
		"an escaped quote":         {`{"a":"\"` + strings.Repeat("[", 2*jsonlimit.MaxDepth) + `"}`, ""},
		"a string that never ends": {`"` + strings.Repeat("[", 2*jsonlimit.MaxDepth), ""},
		"nothing":                  {"", ""},
		"a backslash at the end":   {`"\`, ""},
	} {
		err := jsonlimit.Check([]byte(tc.text))
		if (err != nil) != (tc.want != "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: Check = %v, want an error with %q", name, err, tc.want)
		}
	}
}
