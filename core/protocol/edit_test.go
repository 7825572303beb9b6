package protocol_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/kairos-mcp/kairos/core/protocol"
	"github.com/kairos-mcp/kairos/sdk/driver"
)

// updatesBack checks that the dump of each step, given back as its update,
// changes nothing.
func updatesBack(t failer, c protocol.Chain) {
	for i, want := range c.Steps {
		got, found := c.ParseStep(i, []byte(protocol.RenderStep(want)))
		if errs := only(found, driver.SeverityError); len(errs) > 0 {
			t.Fatalf("the update with the dump of step %d, %q, found %v", i, protocol.RenderStep(want), errs)
		}
		after := c
		after.Steps = append([]protocol.Step(nil), c.Steps...)
		after.Steps[i] = got
		after, found = after.Rename()
		if len(found) > 0 {
			t.Fatalf("Rename found %v", found)
		}
		if diff := cmp.Diff(c, after, ignoreLines, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("an update of step %d with its own dump (-want +got):\n%s", i, diff)
		}
	}
}

func TestUpdatesReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, most int) []byte {
			return []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom(lines), 1, most).Draw(t, name), "\n"))
		}
		chains, found := protocol.Parse(draw("document", 10))
		if len(only(found, driver.SeverityError)) > 0 {
			return
		}
		c := rapid.SampledFrom(chains).Draw(t, "chain")
		i := rapid.IntRange(0, len(c.Steps)-1).Draw(t, "step")
		s, found := c.ParseStep(i, draw("update", 8))
		if len(only(found, driver.SeverityError)) > 0 {
			return
		}
		c.Steps[i] = s
		want, found := c.Rename()
		if len(found) > 0 {
			return
		}
		got, found := protocol.Parse([]byte(protocol.Render(want)))
		if errs := only(found, driver.SeverityError); len(errs) > 0 {
			t.Fatalf("Parse of the updated %q found %v", protocol.Render(want), errs)
		}
		if diff := cmp.Diff([]protocol.Chain{want}, got, ignoreLines, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("Parse(Render(c)) after an update (-want +got):\n%s", diff)
		}
	})
}

func TestUpdatesOfOneText(t *testing.T) {
	one := parseOne(t, "# T\n\nbody\n")
	for name, tc := range map[string]struct{ update, text, label string }{
		"its dump":                {"# T\n\nbody\n", "# T\n\nbody", "T"},
		"another body":            {"# T\n\nmore\n", "# T\n\nmore", "T"},
		"only a body":             {"more", "## T\n\nmore", "T"},
		"another H1 is a heading": {"# U\n\nmore\n", "## U\n\nmore", "U"},
		"an H2":                   {"## U\nmore\n", "## U\nmore", "U"},
		"a challenge":             {"# T\n\nbody\n\n" + block(`{"type":"x"}`), "## T\n\nbody", "T"},
	} {
		s, found := one.ParseStep(0, []byte(tc.update))
		if len(only(found, driver.SeverityError)) > 0 || s.Text != tc.text || s.Label != tc.label {
			t.Errorf("%s: got %q, label %q, %v, want %q, %q", name, s.Text, s.Label, found, tc.text, tc.label)
		}
	}
	if _, found := one.ParseStep(0, []byte("---\nslug: a\n---\n# T\n")); len(only(found, driver.SeverityError)) != 1 {
		t.Errorf("front matter in an update: found %v, want an error", found)
	}
}

func TestRenameGivesTheNamesOfAFreshDocument(t *testing.T) {
	c := parseOne(t, "# T\n## B\n## A\n## A\n## A\n")
	c.Steps = append(c.Steps[:1:1], c.Steps[2:]...)
	c, _ = c.Rename()
	if diff := cmp.Diff([]string{"b", "a", "a_2"}, names(c)); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}
