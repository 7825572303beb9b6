package mcp

import (
	"encoding/json"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/api"
)

// TestAReplyIsEncodedAsByTheLibrary: by hand, every reply of a tool has the JSON that
// encoding/json makes of the same message.
func TestAReplyIsEncodedAsByTheLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := map[string]any{}
		for key, text := range rapid.MapOf(rapid.String(), rapid.String()).Draw(t, "fields") {
			value[key] = text
		}
		indent := rapid.SampledFrom([]string{"", "  "}).Draw(t, "indent")
		res, err := result(value, indent)
		if err != nil {
			t.Fatal(err)
		}
		res.IsError = rapid.Bool().Draw(t, "is an error")
		if rapid.Bool().Draw(t, "modern") {
			res.ResultType = mcp.ResultTypeComplete
			res.Meta = &mcp.Meta{AdditionalFields: map[string]any{"io.modelcontextprotocol/serverInfo": "<\"K\">"}}
		}
		r := &reply{JSONRPC: mcp.JSONRPC_VERSION, ID: json.RawMessage(`"a\"b"`), Result: toolResult(res, &note{})}
		got, err := encode(r)
		if err != nil {
			t.Fatal(err)
		}
		want, err := api.Encode(r, "")
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != string(want) {
			t.Fatalf("encode:\n%s\nlibrary:\n%s", got, want)
		}
	})
}
