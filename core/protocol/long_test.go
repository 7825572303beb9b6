package protocol_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

func TestALongStepIsWarnedOf(t *testing.T) {
	words := func(n int) string { return strings.Repeat("word ", n/5) }
	const block = "\n\n```json\n{\"challenge\":{\"type\":\"comment\"}}\n```\n"
	for name, tc := range map[string]struct {
		doc  string
		want string // part of the warning; empty: none
	}{
		"short":                    {"# P\n\n## Do\n\n" + words(5000) + block, ""},
		"a long text":              {"# P\n\n## Do\n\n" + words(6500) + block, "the step and its challenge have"},
		"with a long challenge":    {"# P\n\n## Do\n\n" + words(5000) + "\n\n```json\n{\"challenge\":{\"type\":\"comment\",\"name\":\"" + strings.Repeat("x", 1500) + "\"}}\n```\n", "the step and its challenge have"},
		"with its introduction":    {"# P\n\n" + words(4000) + "\n\n## Do\n\n" + words(3000) + block, "and the introduction have"},
		"not the second with it":   {"# P\n\n" + words(4000) + "\n\n## Do\n\nit" + block + "\n## Then\n\n" + words(3000) + block, ""},
		"the second by its length": {"# P\n\n## Do\n\nit" + block + "\n## Then\n\n" + words(7000) + block, "the step and its challenge have"},
	} {
		t.Run(name, func(t *testing.T) {
			chains, found := protocol.Parse([]byte(tc.doc))
			if len(chains) != 1 {
				t.Fatalf("Parse = %v, %v", chains, found)
			}
			var said []string
			for _, d := range protocol.Advise(chains[0], nil) {
				if strings.Contains(d.Message, "agent programs cut") {
					if said = append(said, d.Message); d.Severity != driver.SeverityWarning {
						t.Errorf("severity = %v, want a warning", d.Severity)
					}
				}
			}
			if got := strings.Join(said, "\n"); (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("Advise = %q, want %q", got, tc.want)
			}
		})
	}
}
