package protocol_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kairos-mcp/kairos/core/protocol"
)

func TestTheFirstStepIsReadWithTheIntroduction(t *testing.T) {
	for name, tc := range map[string]struct{ doc, want string }{
		"a warning":        {"# T\n\n**NEVER** here.\n\n- a\n\n## 1. One\n\nbody\n", "## 1. One\n\n> Before the first step, the protocol says:\n>\n> **NEVER** here.\n>\n> - a\n\nbody"},
		"nothing":          {"# T\n\n## One\n\nbody\n", "## One\n\nbody"},
		"inputs and words": {"# T\n\nBefore.\n\n" + block(`{"type":"x"}`) + "\n```json\n{\"inputs\": {}}\n```\n\nAfter.\n\n## One\n", "## One\n\n> Before the first step, the protocol says:\n>\n> Before.\n>\n> ```json\n> {\"challenge\": {\"type\":\"x\"}}\n> ```\n>\n> After."},
		"inputs alone":     {"# T\n\n```json\n{\"inputs\": {}}\n```\n\n## One\nx", "## One\nx"},
		"without H2":       {"# T\n\nbody\n", "# T\n\nbody"},
	} {
		c := parseOne(t, tc.doc)
		if diff := cmp.Diff(tc.want, c.Introduced(c.Steps[0].Text)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestALongIntroductionIsCut(t *testing.T) {
	c := parseOne(t, "# T\n\n"+strings.Repeat("Read this line.\n", protocol.MaxIntroduction/8)+"\n## One\n")
	got := c.Introduction()
	if len(got) > protocol.MaxIntroduction+10 || !strings.HasSuffix(got, "Read this line.\n\n[…]") {
		t.Errorf("%d bytes, the end is %q", len(got), got[len(got)-40:])
	}
	if found := protocol.CheckIntroduction(c); len(found) != 1 || !strings.Contains(found[0].Message, "its first 8 KiB") {
		t.Errorf("CheckIntroduction found %v", found)
	}
}
