package mcp_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"

	"github.com/kairos-mcp/kairos/core/api"
)

// listedTool is a tool as a client gets it.
type listedTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Input       json.RawMessage `json:"inputSchema"`
	Output      json.RawMessage `json:"outputSchema"`
	Meta        map[string]any  `json:"_meta"`
}

// listedBy lists the tools as a client of the version gets them; list is the whole reply.
func listedBy(t *testing.T, version string) (tools []listedTool, list json.RawMessage) {
	t.Helper()
	w := dial(t, config(), newDirector())
	if version != "" {
		w.reply(w.request("initialize", obj{
			"protocolVersion": version, "capabilities": obj{}, "clientInfo": obj{"name": "c", "version": "1"},
		}))
	}
	list = w.reply(w.request("tools/list", obj{})).Result
	tools = decode[struct {
		Tools []listedTool `json:"tools"`
	}](t, list).Tools
	if len(tools) != 9 {
		t.Fatalf("%d tools are listed, want nine", len(tools))
	}
	return tools, list
}

func TestTheToolsCostAModelLittle(t *testing.T) {
	tools, list := listedBy(t, "2025-06-18")
	bytesOf := 0
	for _, tool := range tools {
		// As clients pass a tool to a model.
		passed, err := json.Marshal(obj{"name": tool.Name, "description": tool.Description, "parameters": tool.Input})
		if err != nil {
			t.Fatal(err)
		}
		bytesOf += len(passed)
	}
	if bytesOf/4 > 1800 {
		t.Errorf("the tools cost a model %d tokens (bytes / 4), want at most 1,800", bytesOf/4)
	}
	if len(list) > 24<<10 {
		t.Errorf("tools/list has %d bytes, want at most 24 KB", len(list))
	}
	t.Logf("%d tokens, %d bytes", bytesOf/4, len(list))
}

func TestTheToolsOfARunAreLoadedAtOnce(t *testing.T) {
	tools, _ := listedBy(t, "2025-06-18")
	for _, tool := range tools {
		ofRun := slices.Contains([]string{"kairos_search", "kairos_begin", "kairos_next", "kairos_attest"}, tool.Name)
		if always := tool.Meta["anthropic/alwaysLoad"] == true; always != ofRun {
			t.Errorf("%s: anthropic/alwaysLoad is %v, want %v", tool.Name, always, ofRun)
		}
	}
}

func TestTheRulesOfARunStandInTheDescriptionOfSearch(t *testing.T) {
	if len(api.RulesOfARun) > 400 {
		t.Errorf("the rules of a run have %d bytes, want at most 400", len(api.RulesOfARun))
	}
	rules := api.RulesOfARun
	for _, word := range []string{"kairos_begin", "kairos_next", "kairos_attest", "must_obey", "next_action", "next_call", "angle brackets"} {
		if !strings.Contains(rules, word) {
			t.Errorf("the rules of a run do not mention %s", word)
		}
	}
	tools, _ := listedBy(t, "2025-06-18")
	if !strings.HasSuffix(tools[slices.IndexFunc(tools, func(l listedTool) bool { return l.Name == "kairos_search" })].Description, api.RulesOfARun) {
		t.Error("the description of kairos_search does not end with the rules of a run")
	}
}

// Limits of what hosts carry.
const (
	longestName        = 48 // hosts put the name of the server in front; 64 in all
	longestDescription = 1024
)

// Some hosts refuse every request while one tool has a schema that they cannot carry.
func TestHostsCanCarryTheTools(t *testing.T) {
	tools, _ := listedBy(t, "2025-06-18")
	for _, tool := range tools {
		if len(tool.Name) > longestName || len(tool.Description) > longestDescription {
			t.Errorf("%s: the name has %d bytes and the description %d", tool.Name, len(tool.Name), len(tool.Description))
		}
		for _, wrong := range carried(tool.Name, decode[obj](t, tool.Input)) {
			t.Error(wrong)
		}
		for _, keyword := range []string{`"$ref"`, `"oneOf"`, `"anyOf"`, `"properties":{}`} {
			if bytes.Contains(tool.Output, []byte(keyword)) {
				t.Errorf("%s: the output schema has %s", tool.Name, keyword)
			}
		}
	}
	for _, wrong := range []string{
		`{"type":["object","null"]}`, `{}`, `{"type":"object","properties":{}}`, `{"type":"object","properties":{"a":{}}}`, `{"$ref":"#/a"}`,
		`{"type":"string","oneOf":[{"const":"a","title":"A"}]}`, `{"type":"array"}`, `{"type":"string","enumNames":["A"]}`, `{"type":"string","format":"uri"}`,
	} {
		if len(carried("x", decode[obj](t, json.RawMessage(wrong)))) == 0 {
			t.Errorf("the rules of hosts allow %s", wrong)
		}
	}
}

// carriedKeywords are the keywords that hosts carry.
var carriedKeywords = []string{
	"type", "description", "properties", "required", "items", "enum", "minimum", "maximum", "minItems", "maxItems", "additionalProperties",
}

// carried lists what hosts cannot carry in a schema.
func carried(at string, schema obj) []string {
	var wrong []string
	for _, keyword := range slices.Sorted(maps.Keys(schema)) {
		if !slices.Contains(carriedKeywords, keyword) {
			wrong = append(wrong, fmt.Sprintf("%s: %s", at, keyword))
		}
	}
	if _, one := schema["type"].(string); !one {
		wrong = append(wrong, fmt.Sprintf("%s: type is %v, want one type", at, schema["type"]))
	}
	items, list := schema["items"].(obj)
	if schema["type"] == "array" && !list {
		wrong = append(wrong, at+": a list without items")
	}
	if list {
		wrong = append(wrong, carried(at+"[]", items)...)
	}
	members, object := schema["properties"].(obj)
	if object && len(members) == 0 {
		wrong = append(wrong, at+": empty properties")
	}
	for name, member := range members {
		within, _ := member.(obj)
		wrong = append(wrong, carried(at+"."+name, within)...)
		if len(name) > longestName {
			wrong = append(wrong, at+"."+name+": a long name")
		}
		if text, _ := within["description"].(string); len(text) > 200 {
			wrong = append(wrong, at+"."+name+": a long description")
		}
	}
	return wrong
}

func TestOldClientsGetNoStructuredContent(t *testing.T) {
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"} {
		t.Run(version, func(t *testing.T) {
			c := connect(t, newDirector(), version)
			list, err := c.ListTools(t.Context(), mcp.ListToolsRequest{})
			if err != nil {
				t.Fatal(err)
			}
			knows := version >= "2025-06-18"
			for _, tool := range list.Tools {
				if declares := tool.RawOutputSchema != nil || tool.OutputSchema.Type != ""; declares != knows {
					t.Errorf("%s: has an output schema: %v, want %v", tool.Name, declares, knows)
				}
			}
			for tool, args := range goodArgs {
				if tool == "kairos_next" {
					continue // the run of these arguments is another
				}
				res, err := c.CallTool(t.Context(), mcp.CallToolRequest{Params: mcp.CallToolParams{Name: tool, Arguments: args}})
				if err != nil {
					t.Fatal(err)
				}
				text := replyOf(res)
				if !json.Valid(text) {
					t.Errorf("%s: the text is not JSON: %s", tool, text)
				}
				if has := len(res.RawStructuredContent) > 0; has != knows {
					t.Errorf("%s: has structured content: %v, want %v", tool, has, knows)
				}
				if knows && !bytes.Equal(text, res.RawStructuredContent) {
					t.Errorf("%s: the structured content is not the text:\n%s\n%s", tool, res.RawStructuredContent, text)
				}
			}
		})
	}
}

func TestAClientWithoutAVersionGetsBoth(t *testing.T) {
	tools, _ := listedBy(t, "")
	for _, tool := range tools {
		if tool.Output == nil {
			t.Errorf("%s: no output schema", tool.Name)
		}
	}
	w := dial(t, config(), newDirector())
	for tool, args := range goodArgs {
		if r := w.result(w.call(tool, args)); len(r.Structured) == 0 || len(r.Content) != 1 || len(r.Content[0].Text) == 0 {
			t.Errorf("%s: content = %+v and structured content %s, want both", tool, r.Content, r.Structured)
		}
	}
}
