package driver_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/sdk/driver"
)

const confirmCapability = "/experimental/acme~1confirm"

func TestClientMethodCheck(t *testing.T) {
	own := []string{confirmCapability}
	for name, tc := range map[string]struct {
		method driver.ClientMethod
		want   string // in the error; empty: none
	}{
		"one of its own":            {driver.ClientMethod{Method: "acme/confirm", Needs: own}, ""},
		"an extension":              {driver.ClientMethod{Method: "com.acme/ask/again", Needs: []string{"/extensions/com.acme~1ask"}}, ""},
		"a standard one":            {driver.ClientMethod{Method: "roots/list"}, ""},
		"a standard one with more":  {driver.ClientMethod{Method: "sampling/createMessage", Needs: []string{"/sampling/tools"}}, ""},
		"needs nothing":             {driver.ClientMethod{Method: "acme/confirm"}, "below /experimental/"},
		"needs something standard":  {driver.ClientMethod{Method: "acme/confirm", Needs: []string{"/sampling"}}, "below /experimental/"},
		"needs all experiments":     {driver.ClientMethod{Method: "acme/confirm", Needs: []string{"/experimental"}}, "below /experimental/"},
		"initialize":                {driver.ClientMethod{Method: "initialize", Needs: own}, "belongs to MCP"},
		"a tool call":               {driver.ClientMethod{Method: "tools/call", Needs: own}, "belongs to MCP"},
		"a notification":            {driver.ClientMethod{Method: "notifications/message", Needs: own}, "belongs to MCP"},
		"in capitals":               {driver.ClientMethod{Method: "Tools/Call", Needs: own}, "belongs to MCP"},
		"another elicitation":       {driver.ClientMethod{Method: "elicitation/createAll", Needs: own}, "belongs to MCP"},
		"of JSON-RPC":               {driver.ClientMethod{Method: "rpc.acme/confirm", Needs: own}, "belongs to MCP"},
		"without a namespace":       {driver.ClientMethod{Method: "confirm", Needs: own}, "does not match"},
		"empty":                     {driver.ClientMethod{Needs: own}, "does not match"},
		"with a line feed":          {driver.ClientMethod{Method: "acme/confirm\n", Needs: own}, "does not match"},
		"long":                      {driver.ClientMethod{Method: "acme/" + strings.Repeat("x", 200), Needs: own}, "longer than"},
		"a bad pointer":             {driver.ClientMethod{Method: "acme/confirm", Needs: []string{confirmCapability, "/a~2"}}, "RFC 6901"},
		"a pointer without a slash": {driver.ClientMethod{Method: "acme/confirm", Needs: []string{confirmCapability, "sampling"}}, "RFC 6901"},
		"a pointer to everything":   {driver.ClientMethod{Method: "acme/confirm", Needs: []string{confirmCapability, ""}}, "RFC 6901"},
		"very many needs":           {driver.ClientMethod{Method: "acme/confirm", Needs: slices.Repeat(own, 9)}, "at most 8"},
	} {
		err := tc.method.Check()
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s: Check() = %v, want %q in it", name, err, tc.want)
		}
	}
}

func TestDemands(t *testing.T) {
	unlisted := driver.Descriptor{Name: "old"}
	acme := driver.Descriptor{Name: "acme", Sends: []driver.ClientMethod{
		{Method: "acme/confirm", Needs: []string{confirmCapability, "/roots"}},
		{Method: "sampling/createMessage", Needs: []string{"/sampling/context"}},
	}}
	for name, tc := range map[string]struct {
		driver driver.Descriptor
		method string
		params string
		want   []string // nil: it may not be sent
	}{
		"a form":                              {unlisted, "elicitation/create", `{"message":"?"}`, []string{"/elicitation/form"}},
		"a form that says so":                 {unlisted, "elicitation/create", `{"mode":"form"}`, []string{"/elicitation/form"}},
		"an address":                          {unlisted, "elicitation/create", `{"mode":"url"}`, []string{"/elicitation/url"}},
		"a prompt":                            {unlisted, "sampling/createMessage", `{}`, []string{"/sampling"}},
		"a prompt with tools":                 {unlisted, "sampling/createMessage", `{"tools":[]}`, []string{"/sampling/tools"}},
		"no parameters":                       {unlisted, "roots/list", ``, []string{"/roots"}},
		"an unlisted method of its own":       {unlisted, "acme/confirm", `{}`, nil},
		"a method of the protocol":            {unlisted, "tools/call", `{}`, nil},
		"a listed method of its own":          {acme, "acme/confirm", `{}`, []string{confirmCapability, "/roots"}},
		"a driver adds to what MCP demands":   {acme, "sampling/createMessage", `{}`, []string{"/sampling", "/sampling/context"}},
		"a list leaves out what is not in it": {acme, "roots/list", ``, nil},
		"parameters that cannot be read":      {acme, "acme/confirm", `{`, nil},
		"parameters that are not an object":   {unlisted, "elicitation/create", `["url"]`, []string{"/elicitation/form"}},
	} {
		got, err := tc.driver.Demands(driver.ClientRequest{Method: tc.method, Params: json.RawMessage(tc.params)})
		if !slices.Equal(got, tc.want) || (err != nil) != (tc.want == nil) {
			t.Errorf("%s: Demands(%s %s) = %v, %v, want %v", name, tc.method, tc.params, got, err, tc.want)
		}
	}
}
