package protocol_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// The sections that framed the steps on the server before this one are not steps.
func TestFramingSections(t *testing.T) {
	type chain struct {
		Steps, Triggers    []string
		Front, Description string
	}
	for name, tc := range map[string]struct {
		doc  string
		want chain
	}{
		"both": {
			"# T\n\nabout\n\n## Natural Language Triggers\n\n- \"deploy it\"\n- ship: it\n\n## A\n\n## B\n\n## Completion Rule\n\nAll\nof it.\n",
			chain{[]string{"A", "B"}, []string{"deploy it", "ship: it"}, "triggers:\n  - \"deploy it\"\n  - \"ship: it\"", "about\n\n### Completion Rule\n\nAll\nof it."},
		},
		"beside front matter": {
			"---\nslug: t\n---\n# T\n## 1. activation patterns\nWhen they say \"go\" or “run”.\n## A\n## Reward Signal\n",
			chain{[]string{"A"}, []string{"go", "run"}, "slug: t\ntriggers:\n  - \"go\"\n  - \"run\"", "### activation patterns\n\nWhen they say \"go\" or “run”.\n\n### Reward Signal"},
		},
		"beside triggers of its own": {
			"---\ntriggers: go\n---\n# T\n## Activation Patterns\nrun\n## A\n",
			chain{[]string{"A"}, []string{"go"}, "triggers: go", "### Activation Patterns\n\nrun"},
		},
		"too long for triggers": {
			"# T\n## Activation Patterns\n" + strings.Repeat("x", 201) + "\n## A\n",
			chain{[]string{"A"}, nil, "", "### Activation Patterns\n\n" + strings.Repeat("x", 201)},
		},
		"with a challenge it is a step": {
			"# T\n## Activation Patterns\n" + block(`{"type":"x"}`) + "## A\n## Completion Rule\n" + block(`{"type":"x"}`),
			chain{Steps: []string{"Activation Patterns", "A", "Completion Rule"}},
		},
		"with an open block it is a step": {"# T\n## A\n## Completion Rule\n" + fence + "\nx\n", chain{Steps: []string{"A", "Completion Rule"}}},
		"elsewhere it is a step":          {"# T\n## Completion Rule\n## A\n## Activation Patterns\n", chain{Steps: []string{"Completion Rule", "A", "Activation Patterns"}}},
		"without other steps":             {"# T\n## Activation Patterns\nx\n## Completion Rule\ny\n", chain{[]string{"Completion Rule"}, []string{"x"}, "triggers:\n  - \"x\"", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			c := parseOne(t, tc.doc)
			if diff := cmp.Diff(tc.want, chain{labels(c), c.Triggers, c.FrontMatter, c.Description}); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
			readsBack(t, []byte(tc.doc))
		})
	}
}

// An update cannot make a step a framing section.
func TestNoUpdateMakesAFramingSection(t *testing.T) {
	c := parseOne(t, "# T\n## A\n## B\n")
	s, found := c.ParseStep(1, []byte("## Reward Signal\n\nDone.\n"))
	c.Steps[1] = s
	_, more := c.Rename()
	if found = only(append(found, more...), driver.SeverityError); len(found) != 1 || !strings.Contains(found[0].Message, "another heading") {
		t.Errorf("found %v, want an error that asks for another heading", found)
	}
	if _, found := (protocol.Chain{Steps: c.Steps[1:]}).Rename(); len(found) > 0 {
		t.Errorf("a lone step found %v, want nothing", found)
	}
}
