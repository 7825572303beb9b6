package protocol_test

import (
	"testing"

	"github.com/kairos-mcp/kairos/core/protocol"
)

// Blocks of other things than challenges are text, and lint says nothing of them.
func TestOtherBlocksAreNotNearMisses(t *testing.T) {
	for language, contents := range map[string][]string{
		"json": {
			`{"a": {"type": "object", "properties": {}, "required": ["b"]}}`, `{"type": "object", "properties": {"x": {}}}`, `{"name": "x", "type": "string", "required": true}`,
			`{"contract": {"address": {"city": "Rome"}}}`, `{"contract": "0x12"}`, `{"change": {"a": 1}}`, `{"error": {"code": 1, "message": "x"}}`, `[1, 2]`, `[{"a": 1}]`, `{a`, `{}`, `"challenge"`,
		},
		"yaml": {"apiVersion: v1\nkind: Pod\nspec:\n  type: x", "on:\n  push:\n    branches: [main]", "- name: x\n  shell: ls", "challengers: 3\nb: 4", "a: {{ x }}", "x"},
		"":     {"challenge accepted", "challenge: accepted", "{ echo a; }", "shell:\n  cmd: x"},
		"sh":   {`curl -d '{"challenge": 1}' x`, "{ ls; }"},
		"md":   {`{"challenge": {"type": "shell"}}`},
		"go":   {"type: x"},
	} {
		for _, content := range contents {
			doc := inStep(inLanguage(language, content))
			if found := protocol.ForAuthors(found(doc)); len(found) > 0 {
				t.Errorf("lint of\n%s\nfound %v, want nothing", doc, found)
			}
		}
	}
	for _, text := range []string{"The challenge: be quick.", "challenge:\n\nbe quick", "- {a: challenge}", "`{\"a\": 1}`", "docker ps --format '{{.Names}}'"} {
		if found := protocol.ForAuthors(found(inStep(text))); len(found) > 0 {
			t.Errorf("lint of %q found %v, want nothing", text, found)
		}
	}
}
