package driver_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestActionMembersHaveKinds(t *testing.T) {
	got, err := driver.ActionMembers(json.RawMessage(`{"type":"object","properties":{"a":{"type":"string"},"b":{"type":["array","null"]},"c":{"type":"object"},"d":{}}}`))
	want := map[string]driver.MemberKind{"a": driver.MemberText, "b": driver.MemberList, "c": driver.MemberOther, "d": driver.MemberOther}
	if err != nil || len(got) != len(want) {
		t.Fatalf("ActionMembers() = %v, %v, want %v", got, err, want)
	}
	for name, kind := range want {
		if got[name] != kind {
			t.Errorf("member %s is %q, want %q", name, got[name], kind)
		}
	}
}

// TestNearMisses: a schema of actions that is almost one is refused.
func TestNearMisses(t *testing.T) {
	for name, tc := range map[string]struct{ schema, want string }{
		"a list":        {`[]`, "is not the JSON Schema of an object"},
		"cut off":       {`{"properties"`, "is not the JSON Schema of an object"},
		"no properties": {`{"type":"object"}`, "declares no properties"},
		"misspelt":      {`{"propertys":{"a":{"type":"string"}}}`, "declares no properties"},
		"a name":        {`{"properties":{"Tool Name":{"type":"string"}}}`, `declares the member "Tool Name": a name must match`},
		"huge":          {`{"description":"` + strings.Repeat("x", 128<<10) + `"}`, "at most 65536 are read"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := driver.ActionMembers(json.RawMessage(tc.schema)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("ActionMembers() = %v, want %s", err, tc.want)
			}
		})
	}
}
