package driver_test

import (
	"encoding/json"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestDeclares(t *testing.T) {
	all := driver.Client{Capabilities: json.RawMessage(`{"experimental": {"acme/confirm": {"voice": true}, "a~b": {}, "off": false, "none": null},
		"sampling": {"tools": {}}, "list": [{}]}`)}
	for name, tc := range map[string]struct {
		client  driver.Client
		pointer string
		want    bool
	}{
		"a key with a slash":                         {all, "/experimental/acme~1confirm", true},
		"below it":                                   {all, "/experimental/acme~1confirm/voice", true},
		"a key with a tilde":                         {all, "/experimental/a~0b", true},
		"false is not declared":                      {all, "/experimental/off", false},
		"null is not declared":                       {all, "/experimental/none", false},
		"in another place":                           {all, "/extensions/acme~1confirm", false},
		"below a value that is not an object":        {all, "/experimental/off/voice", false},
		"lists have no keys":                         {all, "/list/0", false},
		"a part of a capability with a field":        {all, "/sampling/tools", true},
		"a field counts, not the document":           {all, "/sampling", false},
		"a field":                                    {driver.Client{Sampling: true}, "/sampling", true},
		"either mode":                                {driver.Client{ElicitationURL: true}, "/elicitation", true},
		"the other mode":                             {driver.Client{ElicitationURL: true}, "/elicitation/form", false},
		"nothing is declared":                        {driver.Client{}, "/experimental/acme~1confirm", false},
		"what was declared is not JSON":              {driver.Client{Capabilities: json.RawMessage(`{`)}, "/tasks", false},
		"what was declared is not an object":         {driver.Client{Capabilities: json.RawMessage(`["tasks"]`)}, "/tasks", false},
		"a pointer that does not begin with a slash": {all, "experimental", false},
	} {
		if got := tc.client.Declares(tc.pointer); got != tc.want {
			t.Errorf("%s: Declares(%q) = %t, want %t", name, tc.pointer, got, tc.want)
		}
	}
}
