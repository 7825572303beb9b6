package library_test

import (
	"strings"
	"testing"

	"github.com/kairos-mcp/kairos/core/library"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// A driver declares what later steps see of its challenges; a step may declare more.
func TestAReferenceToWhatADriverNeverGivesIsWarnedOf(t *testing.T) {
	block := func(challenge string) string { return "```json\n{\"challenge\": " + challenge + "}\n```\n\n" }
	const own = `"output_schema": {"type": "object", "properties": {"m": {"type": "integer"}}}, `
	for name, tc := range map[string]struct{ schema, kind, refer, want string }{
		"given":                    {"", "count", "steps.one.n", ""},
		"not given":                {"", "count", "steps.one.m", `the result of the step has no "m" and allows no other keys; it has n`},
		"misspelt":                 {"", "count", "steps.one.nn", `did you mean "n"?`},
		"of the step's own schema": {own, "count", "steps.one.m", ""},
		"of a driver without":      {"", "shell", "steps.one.anything", ""},
	} {
		w := newWorld(t, nil)
		document := "# Count\n\nAbout.\n\n## One\n\n" + block(`{"type": "`+tc.kind+`", `+tc.schema+`"`+tc.kind+`": {}}`) +
			"## Two\n\nSay {{ " + tc.refer + " }}.\n\n" + block(`{"type": "shell", "shell": {"cmd": "echo {{ `+tc.refer+` }}"}}`)
		linted, err := w.Lint(t.Context(), library.LintInput{Document: document})
		if err != nil {
			t.Fatal(err)
		}
		var said []string
		for _, d := range linted.Findings {
			if d.Severity == driver.SeverityWarning {
				said = append(said, d.Message)
			}
		}
		all := strings.Join(said, "\n")
		if (tc.want == "") != (strings.Count(all, tc.refer) == 0) || !strings.Contains(all, tc.want) || tc.want != "" && strings.Count(all, tc.refer) != 2 {
			t.Errorf("%s: lint warns of %q, want %q in challenge and text", name, said, tc.want)
		}
	}
}
